"""Contrasts of two sides: differences, detectable differences, and adjusted p-values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

from sage_cli.counted import agreeing, counted
from sage_cli.metrics import About, Comparison, Crossing, Difference, Side, Support, about, pooled
from sage_cli.metrics.comparison import arms_with_seeds, difference_of_sides
from sage_cli.metrics.counts import STATISTICS
from sage_cli.metrics.error_sources import by_run
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import USUAL, Curve, Resampling, holm, pass_matrix
from sage_cli.metrics.power import POWER, Precision, precision
from sage_cli.metrics.support import different_seeds, grade_correlation
from sage_cli.reports.document import Document, Figure, Provenance
from sage_cli.reports.figures import draw_curves
from sage_cli.reports.passk import powers_of_two, whole_sample_words
from sage_cli.reports.tables import Column, Detail, Estimate, Row, Table, columns, p_value
from sage_cli.store.file_names import file_stems

_Key = TypeVar("_Key")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sides on a benchmark, or on the average of several, at each k.

    `sides` have the runs that were compared, `about` is what the difference is a statement about.
    `means` are both sides' pass@k, `smallest_K` the smallest detectable differences, `holm_K` the
    p-values of `difference` after Holm; NaN outside the family. `unpooled` is the same difference
    with the seeds of both sides alone, where `difference` pools them over a suite's arms.
    """

    sides: tuple[Side, Side]
    about: About
    means: tuple[FloatArray, FloatArray]
    difference: Difference
    smallest_K: FloatArray
    holm_K: FloatArray
    unpooled: Difference | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of both sides."""
        return self.sides[0].label, self.sides[1].label

    @property
    def subject(self) -> str:
        """Return what the difference is about, in words for a table."""
        if self.about == "models":
            return "two models" if self.difference.runs == (1, 1) else "these models"
        return "methods" if min(self.difference.runs) > 1 else "method and this base"


def contrast_of_curves(comparison: Comparison) -> Contrast:
    """Return the contrast of one benchmark; its p-values are not adjusted yet."""
    means = (comparison.curves[0].mean_K, comparison.curves[1].mean_K)
    return _contrast((comparison.a, comparison.b), means, comparison.difference, None)


def contrast_of(
    a: Side, b: Side, ks: Sequence[int], arms: Sequence[Side] = (), resampling: Resampling = USUAL
) -> Contrast:
    """Return the contrast of two sides on a benchmark at `ks`, without bands and crossing.

    If a side has several training seeds, seeds are random as well as problems; a side with one
    model is fixed. `arms` are all of a suite, over which the seeds' variance is pooled.
    """
    first, second, difference = difference_of_sides(a, b, ks, resampling)
    sides, paired = (first, second), difference.pairing is not None
    mean_A, mean_B = (pass_matrix(side.counts, ks).mean(axis=0) for side in sides)
    pool = arms_with_seeds(arms, *sides, paired=paired)
    if pool is None:
        return _contrast(sides, (mean_A, mean_B), difference, None)
    # of all runs once more, so that it, too, says which have no partner
    _, _, pooled_difference = difference_of_sides(a, b, ks, resampling, arms=arms)
    contrast = _contrast(sides, (mean_A, mean_B), pooled_difference, [pool])
    return replace(contrast, unpooled=difference)


def _contrast(
    sides: tuple[Side, Side],
    means: tuple[FloatArray, FloatArray],
    difference: Difference,
    pools: Sequence[Sequence[Side]] | None,
) -> Contrast:
    smallest_K = _precision([sides], difference, pools).detectable(difference)
    unknown_K = np.full(len(difference.ks), np.nan)
    return Contrast(sides, about(*sides), means, difference, smallest_K, unknown_K)


def _precision(
    sides: Sequence[tuple[Side, Side]],
    like: Difference,
    pools: Sequence[Sequence[Side]] | None,
) -> Precision:
    """Return the precision of a difference over benchmarks; `pools` has the arms on each."""
    arms = None
    if pools is not None:
        by_benchmark = [
            [by_run(arm.runs, a.runs[0][0].problem_ids, like.ks) for arm in pool]
            for pool, (a, _) in zip(pools, sides, strict=True)
        ]
        arms = list(zip(*by_benchmark, strict=True))
    runs = [(a.runs, b.runs) for a, b in sides]
    return precision(
        runs, like.ks, paired=like.pairing is not None, arms=arms, resampling=like.resampling
    )


def average_of(
    contrasts: Sequence[Contrast], arms: Sequence[Sequence[Side]] | None = None
) -> Contrast:
    """Return the unweighted mean over benchmarks of the same sides, as each was compared.

    `arms` are those of a suite on each benchmark; those that lack one aren't pooled.
    """
    like, pools = contrasts[0].difference, None
    if arms is not None:
        everywhere = set.intersection(*({arm.label for arm in on} for on in arms))
        chosen = [
            arms_with_seeds(
                [arm for arm in on if arm.label in everywhere],
                *contrast.sides,
                paired=like.pairing is not None,
            )
            for on, contrast in zip(arms, contrasts, strict=True)
        ]
        if all(pool is not None for pool in chosen):
            pools = [pool for pool in chosen if pool is not None]
    unpooled, smallest_K = _average(contrasts, None)
    if pools is None:
        difference, unpooled_difference = unpooled, None
    else:
        (difference, smallest_K), unpooled_difference = _average(contrasts, pools), unpooled
    mean_A, mean_B = np.mean([contrast.means for contrast in contrasts], axis=0)
    return replace(
        contrasts[0],
        means=(mean_A, mean_B),
        difference=difference,
        smallest_K=smallest_K,
        holm_K=np.full(len(like.ks), np.nan),
        unpooled=unpooled_difference,
    )


def _average(
    contrasts: Sequence[Contrast], pools: Sequence[Sequence[Side]] | None
) -> tuple[Difference, FloatArray]:
    """Return the mean difference over benchmarks, and the smallest detectable ones, (K,)."""
    like = contrasts[0].difference
    mean = _precision([contrast.sides for contrast in contrasts], like, pools)
    low_K, high_K = mean.interval(like.confidence)
    problems = sum(contrast.difference.problems for contrast in contrasts)
    difference = Difference(
        like.ks, mean.mean_K, low_K, high_K, mean.p(), like.confidence, problems, like.runs
    )
    return difference, mean.smallest(like.confidence)


def adjusted(contrasts: Mapping[_Key, Contrast], ks: Sequence[int]) -> dict[_Key, Contrast]:
    """Return the contrasts with Holm's p-values over every k of `ks` in all of them."""
    # ks that no table shows are outside the family: more tests would only cost power
    family = {
        name: np.where(np.isin(contrast.difference.ks, ks), contrast.difference.p_K, np.nan)
        for name, contrast in contrasts.items()
    }
    adjusted_p = holm(np.stack(list(family.values())))
    return {
        name: replace(contrast, holm_K=holm_K)
        for (name, contrast), holm_K in zip(contrasts.items(), adjusted_p, strict=True)
    }


def difference_at(contrast: Contrast, k: int) -> Estimate:
    """Return A − B at `k` with its interval."""
    gap = contrast.difference
    column = gap.ks.index(k)
    interval = (float(gap.low_K[column]), float(gap.high_K[column]))
    return Estimate(float(gap.mean_K[column]), interval=interval, signed=True)


def safe_at(contrast: Contrast, k: int) -> Estimate:
    """Return the safe interval at `k` without a value; undefined if there is none."""
    if (safe := contrast.difference.safe) is None:
        return Estimate(float("nan"))
    column = contrast.difference.ks.index(k)
    return Estimate(float("nan"), interval=(float(safe.low_K[column]), float(safe.high_K[column])))


def cells_at(contrast: Contrast, k: int) -> tuple[Estimate, ...]:
    """Return a row's cells: both means, A − B, safe interval, detectable, p, Holm's p."""
    column = contrast.difference.ks.index(k)
    means = (Estimate(float(mean_K[column])) for mean_K in contrast.means)
    p_values = (float(p_K[column]) for p_K in (contrast.difference.p_K, contrast.holm_K))
    smallest = Estimate(float(contrast.smallest_K[column]))
    ps = (shown_p(p, contrast.difference) for p in p_values)
    return (*means, difference_at(contrast, k), safe_at(contrast, k), smallest, *ps)


NOT_BELOW = 0.05
"""The smallest p that is shown where a side has two training seeds."""


def shown_p(p: float, difference: Difference) -> Estimate:
    """Return a p-value of `difference` for a table; "<0.05" where two seeds bear no smaller one."""
    return p_value(p, NOT_BELOW if difference.two_seeds else None)


def contrast_json(contrast: Contrast) -> dict[str, Any]:
    """Return all numbers of a contrast, a value for each k; undefined ones are null.

    `safe` has pairs [low, high], and `fragile` is true where one contains 0 although p is small;
    `safe` is null if training seeds are random too. `about` is "methods" if training seeds are
    random: each side has several, or one has and the other is a base. Else it is "models".
    `pairing` has the training seeds that both sides share, the runs left out for lack of a partner,
    and the correlation of the runs' pass@k; null where runs aren't paired.
    """
    difference, safe = contrast.difference, contrast.difference.safe
    return {
        "about": contrast.about,
        "runs": list(difference.runs),
        "k": list(difference.ks),
        "difference": difference.mean_K,
        "low": difference.low_K,
        "high": difference.high_K,
        "safe": None if safe is None else list(np.stack([safe.low_K, safe.high_K], axis=1)),
        "fragile": difference.fragile.tolist(),
        "p": difference.p_K,
        "p_holm": contrast.holm_K,
        "smallest_detectable": contrast.smallest_K,
        "problems": difference.problems,
        "clusters": difference.clusters,
        "pairing": None
        if difference.pairing is None
        else {
            "seeds": list(difference.pairing.seeds),
            "left_out": list(difference.pairing.left_out),
            "correlation": difference.pairing.correlation_K,
        },
    }


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return notes on intervals, crossing, evaluation seeds and support."""
    names, difference = (comparison.a.label, comparison.b.label), comparison.difference
    notes = [
        interval_note(names, difference),
        *pairing_notes(difference),
        *two_seeds_note(difference),
        *fragile_notes(difference, comparison.shown),
    ]
    if comparison.crossing is not None and len(comparison.shown) > 1:
        notes += crossing_notes(names, comparison.crossing, difference.ks)
    notes += map(Detail, seeds_notes(comparison))
    if comparison.support is not None:
        notes += support_notes(names, comparison.support)
    return [*notes, *whole_sample_note(comparison)]


def crossing_notes(names: tuple[str, str], crossing: Crossing, ks: Sequence[int]) -> list[str]:
    """Return a sentence on where the curves cross, if that is established, and its estimates."""
    if not crossing.leader:
        return ["no crossing is tested, because the curves are equal or there is only one problem"]
    leader, follower = names if crossing.leader == "a" else names[::-1]
    level, span = (
        f"{100 * crossing.confidence:g}% interval",
        f"{_end(crossing.low, ks)} to {_end(crossing.high, ks)}",
    )
    if crossing.established:
        sentence = f"{leader} leads at small k and {follower} at large k: they cross at k = {span}"
        advice = "; quote the interval, because the estimate of a late crossing is too low"
        sentence, estimates = f"{sentence} ({level})", [f"estimate {crossing.k:.3g}{advice}"]
    elif math.isnan(crossing.k):
        sentence = f"no crossing is established: {leader} is not below {follower} at any k"
        estimates = [f"{level} {span}"]
    else:
        sentence = "no crossing is established: the lead before or after it may be due to chance"
        estimates = [f"estimate {crossing.k:.3g}, {level} {span}"]
    estimates.append(f"{crossing.share:.0%} of the resampled sets of problems cross")
    return [sentence, Detail(f"crossing: {'; '.join(estimates)}")]


def support_notes(names: tuple[str, str], support: Support) -> list[str]:
    """Return notes on problems that one side alone solved, beside the number by chance."""
    a, b = names
    test = "McNemar's" if support.paired else "Fisher's"
    gained = len(support.gained)
    return [
        f"{counted(gained, 'problem')} {agreeing(gained, 'was', 'were')} solved by {a} and "
        f"never by {b}, and {len(support.lost)} by {b} and never by {a} (expected if both were "
        f"equal: {support.gained_by_chance:.1f} and {support.lost_by_chance:.1f})",
        Detail(
            f"by {test} test, adjusted by Holm, at {100 * support.confidence:g}% confidence: "
            f"{counted(len(support.surely_gained), 'problem')} that {a} solves and {b} does not, "
            f"and {len(support.surely_lost)} that {b} solves and {a} does not"
        ),
        Detail(
            f"both solved {counted(len(support.kept), 'problem')} and neither solved "
            f"{len(support.absent)} (a problem with a success probability below "
            f"{support.visible:.2g} may be among them by chance)"
        ),
    ]


def verdicts_of(
    contrast: Contrast, ks: Sequence[int], heading: str = "", *, tests: int = 1
) -> list[str]:
    """Return what was found in a sentence for each k of `ks`, the first of them below `heading`.

    A difference is found where p, after Holm where there are several `tests`, is at most 1 minus
    the confidence. One that isn't found comes with the one that would have been.
    """
    return [
        f"{heading if place == 0 else ''}{_verdict(contrast, k, adjusted=tests > 1)}"
        for place, k in enumerate(ks)
    ]


def _verdict(contrast: Contrast, k: int, *, adjusted: bool) -> str:
    column, (a, b) = contrast.difference.ks.index(k), contrast.labels
    p = float((contrast.holm_K if adjusted else contrast.difference.p_K)[column])
    gap = f"{a} − {b} = {difference_at(contrast, k)}"
    if math.isnan(p):
        return f"At k = {k} nothing can be tested: {gap}."
    shown = str(shown_p(p, contrast.difference))
    relation = f"< {shown[1:]}" if shown.startswith("<") else f"= {shown}"
    tested = f"p{' (Holm)' if adjusted else ''} {relation}"
    if p <= 1 - contrast.difference.confidence:
        higher, lower = (a, b) if contrast.difference.mean_K[column] > 0 else (b, a)
        return f"At k = {k} {higher} is above {lower}: {gap}, {tested}."
    smallest = float(contrast.smallest_K[column])
    missed = (
        "which difference would have been found is unknown"
        if math.isnan(smallest)
        else f"a difference of {smallest:.3f} would have been found in {POWER:.0%} of repetitions"
        + " by a single test" * adjusted
    )
    return f"At k = {k} no difference is found: {gap}, {tested}; {missed}."


VERDICTS = 3
"""Values of k that have a verdict each; of more, only the first and the last have one."""


def told_ks(ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k whose verdicts stand above the tables."""
    return ks if len(ks) <= VERDICTS else (ks[0], ks[-1])


def reading_notes(differences: Sequence[Difference]) -> list[str]:
    """Return notes on which interval to quote and on what `detectable` says."""
    test = f"at {1 - differences[0].confidence:.0%} two-sided"
    notes = [
        f"detectable: the minimum detectable difference, found in {POWER:.0%} of repetitions "
        f"({test}); a smaller true difference may have gone unnoticed",
        Detail(
            "detectable is the distance from the difference to the end of its interval on the side "
            "of 0, plus t(0.80) standard errors of that end (Bloom 1995); it is a lower bound "
            "where few problems differ, and – where there is none or it is unknown"
        ),
    ]
    if any(difference.safe is not None for difference in differences):
        notes = [
            "quote the difference with its interval; the conservative interval (--notes) also "
            "holds if rare problems lose much",
            *notes,
            Detail(
                "conservative: Gaffke's bounds alone, which hold for every distribution of the "
                "problems' differences; the interval of the difference is narrower, and errs if "
                "rare problems lose much"
            ),
        ]
    return notes


def interval_note(names: tuple[str, str], difference: Difference) -> str:
    """Return a note on what is random in the intervals: problems, or training seeds as well."""
    if difference.problems < 2:
        return "there is no interval and no p, because one problem says nothing about others"
    level = f"{100 * difference.confidence:g}% intervals over {difference.problems} problems"
    if difference.clusters is not None:
        level += f" in {difference.clusters} clusters"
    runs = difference.runs
    if runs == (1, 1):
        return (
            f"{level}, paired; they describe these two models, not their methods: another training "
            "seed gives another model"
        )
    if difference.pairing is not None:
        return f"{level} and {runs[0]} training seeds, paired by seed; both are random"
    if min(runs) > 1:
        return f"{level} and {runs[0]} against {runs[1]} training seeds; both are random"
    several, single = names if runs[0] > 1 else names[::-1]
    seeds = f"{max(runs)} training seeds of {several}"
    return f"{level} and {seeds}; both are random, and {single} is one fixed model"


def pairing_notes(difference: Difference) -> list[str]:
    """Return notes on paired training seeds: which, who is left out, and how alike they make."""
    if difference.pairing is None:
        return []
    seeds, left_out = difference.pairing.seeds, difference.pairing.left_out
    notes = []
    if left_out:
        notes.append(
            f"{', '.join(left_out)} left out, because the other side has no run with the same "
            "training seed; --unpaired uses all runs"
        )
    correlation_K = difference.pairing.correlation_K[~np.isnan(difference.pairing.correlation_K)]
    alike = ""
    if correlation_K.size:
        low, high = correlation_K.min(), correlation_K.max()
        alike = f"; their pass@k has correlations from {low:.2f} to {high:.2f} over the seeds"
    return [
        *notes,
        f"runs are paired by training seed ({', '.join(map(str, seeds))}): both have the same "
        f"seed, initial weights and rows{alike}",
    ]


def whole_sample_note(comparison: Comparison) -> list[str]:
    """Return a warning if a k that is shown is all samples of a problem."""
    sides = (*comparison.a.counts, *comparison.b.counts)
    n = min((int(counts.n_P.min()) for counts in sides if len(counts)), default=0)
    return [whole_sample_words(n)] if n > 1 and n in comparison.shown else []


def two_seeds_note(difference: Difference) -> list[str]:
    """Return a warning where a side has two training seeds, and p may be small."""
    if not difference.two_seeds:
        return []
    return [
        "with two training seeds a p below 0.05 is printed as <0.05, because two seeds do not "
        "allow more; train a third"
    ]


def _end(k: float, ks: Sequence[int]) -> str:
    if math.isinf(k):
        return f"below {ks[0]}" if k < 0 else f"beyond {ks[-1]}"
    return f"{k:.3g}"


def fragile_notes(difference: Difference, ks: Sequence[int]) -> list[str]:
    """Return a warning for the ks at which rare, unseen losses could undo the test's result."""
    fragile_K = zip(difference.ks, difference.fragile.tolist(), strict=True)
    fragile = [str(k) for k, is_fragile in fragile_K if is_fragile and k in ks]
    if not fragile:
        return []
    return [
        f"at k = {', '.join(fragile)} the paired test finds a difference, but the conservative "
        "interval contains 0: problems that are lost completely, and so rare that few or none are "
        f"among these {difference.problems}, could reverse it; measure more problems"
    ]


def seeds_notes(comparison: Comparison) -> list[str]:
    """Return a note on shared random numbers of both sides, if that is known."""
    a, b = (pooled(side.runs[0]) for side in (comparison.a, comparison.b))
    if different_seeds(a, b):
        return [
            "the two sides have different evaluation seeds, so they do not share their random "
            "numbers: the variance from sampling is about 1.2 times (an initial policy and its RL "
            "policy) to 2 times (two RL policies) as large as with equal seeds"
        ]
    correlation = grade_correlation(a, b)
    if math.isnan(correlation):
        return []
    return [
        "both sides share their random numbers sample by sample (equal evaluation seeds): the "
        f"correlation of grades within a problem is {correlation:.2f}"
    ]


def unchecked_notes(names: Sequence[str]) -> list[str]:
    """Return a warning for models that are taken as seeds of a method, with settings unknown."""
    if not names:
        return []
    return [
        f"no settings are stored of {', '.join(names)}, so we could not check that the models of "
        "a side are training seeds of one method"
    ]


AVERAGE = "average"
DIFFERENCE_COLUMNS = "difference, safe=conservative?, detectable, p, p (Holm)"
AVERAGE_NOTE = (
    "all benchmarks have the same weight; interval and p are Howe's, from the errors of the "
    "benchmarks, whose problems are independent"
)


def overall_contrast(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """Return a pair's contrast on the benchmarks' average, or on the only benchmark."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)


def comparison_document(
    comparisons: Mapping[str, Comparison],
    provenance: Provenance,
    notes: Sequence[str] = (),
    guesses: Mapping[str, Curve] | None = None,
) -> Document:
    """Return the report of benchmark -> comparison of the same two sides.

    `guesses` are the curves of guessing without a model by benchmark. `notes` come before the
    report's own. Tables show the powers of two among the ks to be shown; picture, CSV (a file per
    benchmark) and JSON have every k.
    """
    first = next(iter(comparisons.values()))
    statistic, shown = first.statistic, powers_of_two(first.shown)
    rows = {name: contrast_of_curves(comparison) for name, comparison in comparisons.items()}
    if len(comparisons) > 1:
        rows[AVERAGE] = average_of(list(rows.values()))
    rows = adjusted(rows, shown)
    tests = sum(int(np.isfinite(row.holm_K).sum()) for row in rows.values())
    tables = []
    for benchmark, comparison in comparisons.items():
        about_both = comparison_notes(comparison)
        guess = (guesses or {}).get(benchmark)
        table = comparison_table(benchmark, rows[benchmark], shown, about_both, guess)
        tables.append(table if tests > 1 else _without_holm(table))
    if AVERAGE in rows:
        heading = f"the average of {', '.join(comparisons)}"
        tables.append(comparison_table(heading, rows[AVERAGE], shown, (AVERAGE_NOTE,)))
    verdicts = _verdicts(rows, shown, tests)
    data = {
        "comparisons": {
            name: comparison_json(a, rows[name])
            | ({"guess": guesses[name].mean_K} if guesses else {})
            for name, a in comparisons.items()
        },
        "average": contrast_json(rows[AVERAGE]) if AVERAGE in rows else None,
        "holm": {"k": shown, "over": list(rows), "tests": tests},
        "verdicts": verdicts,
        "statistic": statistic.name,
    }
    panels = {
        name: dict(zip(rows[name].labels, comparison.curves, strict=True))
        for name, comparison in comparisons.items()
    }
    differences = {name: comparison.difference for name, comparison in comparisons.items()}
    stems, unusual = file_stems(rows), statistic is not STATISTICS["pass"]
    reading = (
        *((f"{statistic.name}: the chance that {statistic.meaning}",) if unusual else ()),
        *reading_notes([row.difference for row in rows.values()]),
        *([f"p (Holm): adjusted for the {tests} tests of these tables"] if tests > 1 else []),
        Detail(f"these are k = {', '.join(map(str, shown))} on {', '.join(rows)}"),
    )
    lines = NOTE_LINES - 1 - len(wrap(provenance.sampled or "", TERMINAL_COLUMNS))
    tables, notes = few_lines(tables, notes, reading, lines)
    return Document(
        name="compare",
        title=f"{statistic.name}: {first.a.label} against {first.b.label}"
        if unusual
        else f"{first.a.label} against {first.b.label}",
        provenance=provenance,
        data=data,
        tables=tuple(tables),
        sheets={
            f"compare-{stems[name]}": comparison_table(name, row, row.difference.ks)
            for name, row in rows.items()
        },
        figures=(
            Figure(
                "compare",
                partial(draw_curves, panels, differences=differences, height=statistic.name),
            ),
        ),
        notes=notes,
        verdicts=tuple(verdicts),
    )


def _verdicts(rows: Mapping[str, Contrast], ks: Sequence[int], tests: int) -> list[str]:
    """Return the verdicts of the benchmarks' average, or of the only benchmark."""
    contrast = overall_contrast(rows)
    heading = f"On average over {len(rows) - 1} benchmarks: " if AVERAGE in rows else ""
    return [] if contrast is None else verdicts_of(contrast, told_ks(ks), heading, tests=tests)


def _without_holm(table: Table) -> Table:
    """Return a table without the column of adjusted p-values, which says nothing of one test."""
    columns = tuple(
        replace(column, detail=column.detail or column.name == "p (Holm)")
        for column in table.columns
    )
    return replace(table, columns=columns)


NOTE_LINES = 12
"""Lines of notes that a terminal of `TERMINAL_COLUMNS` shows without `--notes`; one says that there
are more."""
TERMINAL_COLUMNS = 80


def few_lines(
    tables: Sequence[Table], notes: Sequence[str], reading: Sequence[str], lines: int
) -> tuple[list[Table], tuple[str, ...]]:
    """Return tables, and `notes` and `reading` as one, with as many turned into details as needed.

    `notes` come first, as they warn of this very comparison, then those of the tables, then how the
    tables are read. What a second table says again is a detail.
    """
    printed = set[str]()

    def fitting(note: str) -> str:
        nonlocal lines
        needed = len(wrap(note, TERMINAL_COLUMNS))
        if isinstance(note, Detail) or note in printed or needed > lines:
            return Detail(note)
        printed.add(note)
        lines -= needed
        return note

    first = tuple(map(fitting, notes))
    fitted = [replace(table, notes=tuple(map(fitting, table.notes))) for table in tables]
    return fitted, (*first, *map(fitting, reading))


def with_own(document: Document, own: Mapping[str, Comparison]) -> Document:
    """Return a comparison behind that with the own control; p of that is in no family."""
    contrasts = {name: contrast_of_curves(comparison) for name, comparison in own.items()}
    ks = {name: powers_of_two(comparison.shown) for name, comparison in own.items()}
    tables = (_without_holm(comparison_table(n, c, ks[n])) for n, c in contrasts.items())
    data = {"own_control": {name: contrast_json(contrast) for name, contrast in contrasts.items()}}
    first = next(iter(contrasts))
    heading = f"On {first}: " if len(contrasts) > 1 else ""
    verdicts = verdicts_of(contrasts[first], told_ks(ks[first]), heading)
    return replace(
        document,
        data={**document.data, **data},
        tables=(*tables, *document.tables),
        verdicts=(*verdicts, *document.verdicts),
    )


def comparison_table(
    benchmark: str,
    contrast: Contrast,
    ks: Sequence[int],
    notes: Sequence[str] = (),
    guess: Curve | None = None,
) -> Table:
    """Return a row per k of `ks`: means, A minus B, intervals, detectable difference, p.

    With the curve of guessing without a model its pass@k stands before both means.
    """
    guessed = [] if guess is None else [Column("guess")]
    heads = (Column("k"), *guessed, *map(Column, contrast.labels), *columns(DIFFERENCE_COLUMNS))
    rows = [
        Row((k, *([] if guess is None else [Estimate(guess.at(k)[0])]), *cells_at(contrast, k)))
        for k in contrast.difference.ks
        if k in ks
    ]
    statistic = contrast.sides[0].counts[0].statistic
    by = "" if statistic is STATISTICS["pass"] else f" by {statistic.name}"
    title = f"{' against '.join(contrast.labels)}{by} on {benchmark}: {contrast.subject}"
    return Table(title, heads, tuple(rows), tuple(notes))


def comparison_json(comparison: Comparison, contrast: Contrast) -> dict[str, Any]:
    """Return all numbers of a comparison and of its contrast.

    An end of the crossing beyond the ks is "inf" or "-inf".
    """
    difference = comparison.difference
    sides = zip((comparison.a, comparison.b), comparison.curves, strict=True)
    return {
        "confidence": difference.confidence,
        "sides": [
            {
                "name": side.label,
                comparison.statistic.name: curve.mean_K,
                "low": curve.low_K,
                "high": curve.high_K,
            }
            for side, curve in sides
        ],
        "crossing": comparison.crossing,
        "support": comparison.support,
        **contrast_json(contrast),
    }
