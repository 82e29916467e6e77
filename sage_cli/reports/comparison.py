"""Two models or two methods compared: a document with differences and what they mean in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import Comparison, Crossing, Difference, Support
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.design.precision import POWER
from sage_cli.reports.cautions import fragile_notes, seeds_notes
from sage_cli.reports.contrast import (
    Contrast,
    ContrastJson,
    adjusted,
    average,
    cells_at,
    contrast,
    contrast_json,
)
from sage_cli.reports.document import Document
from sage_cli.reports.passk import curves_figure, powers_of_two
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.spread import spread_table
from sage_cli.reports.table import Column, Row, Table

AVERAGE = "average"
AVERAGE_NOTE = (
    "unweighted; Student's interval and p from the standard errors of the benchmarks, whose "
    "problems are drawn apart (degrees of freedom: Satterthwaite)"
)


class SpreadJson(TypedDict):
    """Standard errors by what they come from, a value for each k."""

    problems: FloatArray
    sampling: FloatArray
    evaluation_seeds: FloatArray
    training_seeds: FloatArray


SideJson = TypedDict(
    "SideJson",
    {
        "name": str,
        "pass@k": FloatArray,
        "low": FloatArray,
        "high": FloatArray,
        "spread": SpreadJson,
    },
)
"""One side's pass@k with its band, and how uncertain that is."""


class ComparisonJson(ContrastJson):
    """Two sides on one benchmark. An end of the crossing that lies beyond the ks is "inf" or
    "-inf"."""

    confidence: float
    sides: list[SideJson]
    crossing: Crossing | None
    support: Support | None


class HolmJson(TypedDict):
    """The tests among which p-values are adjusted."""

    k: list[int]
    over: list[str]
    tests: int


class ComparisonData(TypedDict):
    """A comparison for each benchmark, and of the average where there are several."""

    comparisons: dict[str, ComparisonJson]
    average: ContrastJson | None
    holm: HolmJson


def comparison_document(comparisons: Mapping[str, Comparison], provenance: Provenance) -> Document:
    """Benchmark -> comparison of the same two sides.

    People's tables show the powers of two among the ks to be shown, and sources of uncertainty at
    fewer ks; picture, CSV (a file per benchmark) and JSON hold every k.
    """
    first = next(iter(comparisons.values()))
    shown = powers_of_two(first.shown)
    rows = {name: contrast(one) for name, one in comparisons.items()}
    if len(comparisons) > 1:
        rows[AVERAGE] = average(list(comparisons.values()))
    rows = adjusted(rows, shown)
    tables = []
    for benchmark, one in comparisons.items():
        spreads = dict(zip((one.a.label, one.b.label), one.variances, strict=True))
        notes = comparison_notes(one)
        tables.append(comparison_table(benchmark, rows[benchmark], shown, notes))
        tables.append(spread_table(benchmark, spreads, sorted({*shown[::3], shown[-1]})))
    if AVERAGE in rows:
        of = f"the average of {', '.join(comparisons)}"
        tables.append(comparison_table(of, rows[AVERAGE], shown, (AVERAGE_NOTE,)))
    tests = sum(int(np.isfinite(one.holm_K).sum()) for one in rows.values())
    data: ComparisonData = {
        "comparisons": {name: comparison_json(one, rows[name])
                        for name, one in comparisons.items()},
        "average": contrast_json(rows[AVERAGE]) if AVERAGE in rows else None,
        "holm": {"k": shown, "over": list(rows), "tests": tests},
    }  # fmt: skip
    return Document(
        name="compare",
        title=f"{first.a.label} against {first.b.label}",
        provenance=provenance,
        data=data,
        tables=tuple(tables),
        sheets={
            f"compare-{Path(name).stem}": comparison_table(name, one, one.difference.ks)
            for name, one in rows.items()
        },
        figures=(
            curves_figure(
                "compare",
                {
                    name: {one.a.label: one.curves[0], one.b.label: one.curves[1]}
                    for name, one in comparisons.items()
                },
                {name: one.difference for name, one in comparisons.items()},
            ),
        ),
        notes=(
            "detectable: the smallest true difference that these problems, samples and seeds would "
            f"have shown in {POWER:.0%} of repetitions, at {1 - first.difference.confidence:.0%} "
            "two-sided: the interval's reach and t standard errors (Bloom 1995); a lower bound "
            "where few problems differ so far; – : none, or unknown",
            "safe: Gaffke's bounds alone, which hold whatever the problems' differences are; the "
            "interval of the difference is narrower and errs where rare problems lose much",
            f"p (Holm): adjusted for the {tests} tests of these tables, k = "
            f"{', '.join(map(str, shown))} on {', '.join(rows)}",
        ),
    )


def comparison_table(
    benchmark: str, contrast: Contrast, ks: Sequence[int], notes: Sequence[str] = ()
) -> Table:
    """A row per k of `ks`: both means, A less B with its interval, what could be seen, and p."""
    names = ("difference", "safe", "detectable", "p", "p (Holm)")
    columns = (Column("k"), *map(Column, (*contrast.labels, *names)))
    rows = [Row((k, *cells_at(contrast, k))) for k in contrast.difference.ks if k in ks]
    title = f"{' against '.join(contrast.labels)} on {benchmark}: {contrast.subject}"
    return Table(title, columns, tuple(rows), tuple(notes))


def comparison_notes(comparison: Comparison) -> list[str]:
    """What the interval is about, where the curves cross, whose problems were solved."""
    names, difference = (comparison.a.label, comparison.b.label), comparison.difference
    notes = [interval_note(names, difference), *fragile_notes(difference, comparison.shown)]
    if comparison.crossing is not None:
        notes.append(crossing_note(names, comparison.crossing, difference.ks))
    notes += seeds_notes(comparison)
    if comparison.support is not None:
        notes += support_notes(names, comparison.support)
    return notes


def crossing_note(names: tuple[str, str], crossing: Crossing, ks: Sequence[int]) -> str:
    """Where the curves cross, in a sentence; an estimate that isn't established isn't told."""
    if not crossing.leader:
        return "the curves are equal, or have one k or one problem only: no crossing to speak of"
    leader = names[0] if crossing.leader == "a" else names[1]
    follower = names[1] if crossing.leader == "a" else names[0]
    span = (
        f"{100 * crossing.confidence:g} % interval {_end(crossing.low, ks)} to "
        f"{_end(crossing.high, ks)}; {crossing.share:.0%} of resamples cross"
    )
    if crossing.established:
        return (
            f"{leader} leads at small k and {follower} beyond a k between {crossing.low:.3g} and "
            f"{crossing.high:.3g} ({100 * crossing.confidence:g} % interval; {crossing.share:.0%} "
            f"of resamples cross; estimate {crossing.k:.3g}, which is too low where the interval "
            "is wide)"
        )
    if math.isnan(crossing.k):
        return f"no crossing established: {leader} is not below {follower} at any k ({span})"
    return (
        f"no crossing established: not sure that one leads before and the other after it ({span})"
    )


def support_notes(names: tuple[str, str], support: Support) -> list[str]:
    """Problems that A solved and B never did, and the reverse, against what chance would show."""
    a, b = names
    return [
        f"solved by {a} alone: {len(support.gained)} problems, {support.gained_by_chance:.1f} "
        f"expected if both were equal; beyond chance by {_test(support)} test after Holm, at "
        f"{100 * support.confidence:g} %: {len(support.surely_gained)}",
        f"solved by {b} alone: {len(support.lost)}, {support.lost_by_chance:.1f} expected; "
        f"beyond chance: {len(support.surely_lost)}",
        f"solved by both: {len(support.kept)}; by neither: {len(support.absent)} "
        f"(success probabilities below {support.visible:.2g} can go unseen)",
    ]


def _test(support: Support) -> str:
    return "McNemar's" if support.paired else "Fisher's"


def interval_note(names: tuple[str, str], difference: Difference) -> str:
    """What is random in the intervals, and hence what they are about."""
    level = f"{100 * difference.confidence:g} % intervals over {difference.problems} problems"
    runs = difference.runs
    if runs == (1, 1):
        return (
            f"{level}, paired; about these two models, not their methods: another training seed "
            "gives another model"
        )
    if min(runs) > 1:
        return f"{level} and {runs[0]} against {runs[1]} training seeds, both random"
    (several, seeds), (single, _) = sorted(zip(names, runs, strict=True), key=lambda one: -one[1])
    return (
        f"{level} and {seeds} training seeds of {several}, both random; {single} is this one model"
    )


def _end(k: float, ks: Sequence[int]) -> str:
    if math.isinf(k):
        return f"below {ks[0]}" if k < 0 else f"beyond {ks[-1]}"
    return f"{k:.3g}"


def comparison_json(comparison: Comparison, contrast: Contrast) -> ComparisonJson:
    """All numbers of a comparison, with those of its contrast."""
    difference = comparison.difference
    sides = zip((comparison.a, comparison.b), comparison.curves, comparison.variances, strict=True)
    return {
        "confidence": difference.confidence,
        "sides": [
            {
                "name": side.label,
                "pass@k": curve.mean_K,
                "low": curve.low_K,
                "high": curve.high_K,
                "spread": {
                    "problems": spread.problems_K,
                    "sampling": spread.sampling_K,
                    "evaluation_seeds": spread.evaluation_seeds_K,
                    "training_seeds": spread.training_seeds_K,
                },
            }
            for side, curve, spread in sides
        ],
        "crossing": comparison.crossing,
        "support": comparison.support,
        **contrast_json(contrast),
    }
