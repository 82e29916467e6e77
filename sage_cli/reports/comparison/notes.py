"""Notes that a reader of a comparison needs in order to judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sage_cli.counted import agreeing, counted
from sage_cli.metrics import Comparison, Crossing, Difference, Support, pooled
from sage_cli.metrics.power import POWER
from sage_cli.metrics.support import different_seeds, grade_correlation
from sage_cli.reports.passk import whole_sample_words
from sage_cli.reports.tables import Detail


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
        sentence = (
            f"no crossing is established: the curves cross near k = {crossing.k:.3g}, but the "
            "lead before or after it may be due to chance"
        )
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
        "interval, which allows for problems too rare to be among these "
        f"{difference.problems:,}, contains 0: measure more problems to be sure"
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
