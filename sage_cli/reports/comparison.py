"""The report of a comparison of two models or two methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import Comparison, Crossing, Support, VarianceComponents
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.comparison_notes import comparison_notes, reading_notes, unchecked_notes
from sage_cli.reports.contrast import (
    Contrast,
    ContrastJson,
    adjusted,
    average,
    cells_at,
    contrast,
    contrast_json,
)
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.curves import draw_curves
from sage_cli.reports.passk import powers_of_two
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Column, Detail, Measure, Row, Table, columns

AVERAGE = "average"
DIFFERENCE_COLUMNS = "difference, safe, detectable, p, p (Holm)"
AVERAGE_NOTE = (
    "unweighted; Student's interval and p from the standard errors of the benchmarks, whose "
    "problems are independent (degrees of freedom: Satterthwaite)"
)


VARIANCE_NOTES = (
    "standard deviations of one evaluation's mean pass@k, if only this were sampled anew; "
    "'problems' holds the sampling too",
    "– : unknown. Sampling needs 2k samples per problem, seeds need two of their kind.",
)


class VarianceJson(TypedDict):
    """Standard errors by their source, a value for each k."""

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
        "variance_components": VarianceJson,
    },
)
"""A side's pass@k with its band and sources of uncertainty."""


class ComparisonJson(ContrastJson):
    """Two sides on a benchmark; an end of the crossing beyond the ks is "inf" or "-inf"."""

    confidence: float
    sides: list[SideJson]
    crossing: Crossing | None
    support: Support | None


class HolmJson(TypedDict):
    """The family of tests over which p-values are adjusted."""

    k: list[int]
    over: list[str]
    tests: int


class ComparisonData(TypedDict):
    """A comparison for each benchmark, and of their average if there are several."""

    comparisons: dict[str, ComparisonJson]
    average: ContrastJson | None
    holm: HolmJson


def comparison_document(
    comparisons: Mapping[str, Comparison], provenance: Provenance, unchecked: Sequence[str] = ()
) -> Document:
    """Return the report of benchmark -> comparison of the same two sides.

    `unchecked` are models of a side of several that have no stored settings. Tables show the
    powers of two among the ks to be shown, and sources of uncertainty at fewer ks; picture, CSV (a
    file per benchmark) and JSON have every k.
    """
    first = next(iter(comparisons.values()))
    shown = powers_of_two(first.shown)
    rows = {name: contrast(one) for name, one in comparisons.items()}
    if len(comparisons) > 1:
        rows[AVERAGE] = average(list(comparisons.values()))
    rows = adjusted(rows, shown)
    tables = []
    for benchmark, one in comparisons.items():
        components = dict(zip((one.a.label, one.b.label), one.variances, strict=True))
        notes = comparison_notes(one)
        tables.append(comparison_table(benchmark, rows[benchmark], shown, notes))
        tables.append(variance_table(benchmark, components, {*shown[::3], shown[-1]}))
    if AVERAGE in rows:
        of = f"the average of {', '.join(comparisons)}"
        tables.append(comparison_table(of, rows[AVERAGE], shown, (AVERAGE_NOTE,)))
    tests = sum(int(np.isfinite(one.holm_K).sum()) for one in rows.values())
    data: ComparisonData = {
        "comparisons": {name: comparison_json(a, rows[name]) for name, a in comparisons.items()},
        "average": contrast_json(rows[AVERAGE]) if AVERAGE in rows else None,
        "holm": {"k": shown, "over": list(rows), "tests": tests},
    }
    panels = {
        name: dict(zip((one.a.label, one.b.label), one.curves, strict=True))
        for name, one in comparisons.items()
    }
    differences = {name: one.difference for name, one in comparisons.items()}
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
        figures=(Figure("compare", partial(draw_curves, panels, differences=differences)),),
        notes=(
            *unchecked_notes(unchecked),
            *reading_notes([one.difference for one in rows.values()]),
            f"p (Holm): adjusted for the {tests} tests of these tables",
            Detail(f"these are k = {', '.join(map(str, shown))} on {', '.join(rows)}"),
        ),
    )


def comparison_table(
    benchmark: str, contrast: Contrast, ks: Sequence[int], notes: Sequence[str] = ()
) -> Table:
    """Return a row per k of `ks`: both means, A less B, intervals, detectable difference, p."""
    heads = (Column("k"), *map(Column, contrast.labels), *columns(DIFFERENCE_COLUMNS))
    rows = [Row((k, *cells_at(contrast, k))) for k in contrast.difference.ks if k in ks]
    title = f"{' against '.join(contrast.labels)} on {benchmark}: {contrast.subject}"
    return Table(title, heads, tuple(rows), tuple(notes))


def variance_table(
    benchmark: str, components: Mapping[str, VarianceComponents], ks: Collection[int]
) -> Table:
    """Return a row per model and k of `ks` with a column per source of uncertainty."""
    rows = [
        Row((label, k, *(Measure(float(sd), digits=4) for sd in sources)), section=label)
        for label, one in components.items()
        for k, *sources in zip(one.ks, *_sources(one), strict=True)
        if k in ks
    ]
    heads = columns("model, k, problems, sampling, evaluation seeds, training seeds")
    return Table(
        f"sources of uncertainty on {benchmark}", heads, tuple(rows), VARIANCE_NOTES, detail=True
    )


def _sources(one: VarianceComponents) -> tuple[FloatArray, ...]:
    return one.problems_K, one.sampling_K, one.evaluation_seeds_K, one.training_seeds_K


def comparison_json(comparison: Comparison, contrast: Contrast) -> ComparisonJson:
    """Return all numbers of a comparison and of its contrast."""
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
                "variance_components": _variance_json(components),
            }
            for side, curve, components in sides
        ],
        "crossing": comparison.crossing,
        "support": comparison.support,
        **contrast_json(contrast),
    }


def _variance_json(one: VarianceComponents) -> VarianceJson:
    problems_K, sampling_K, evaluation_seeds_K, training_seeds_K = _sources(one)
    return {
        "problems": problems_K,
        "sampling": sampling_K,
        "evaluation_seeds": evaluation_seeds_K,
        "training_seeds": training_seeds_K,
    }
