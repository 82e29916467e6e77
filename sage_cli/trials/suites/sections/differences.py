"""Paired differences of the methods that a suite compares, and its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sage_cli.metrics.comparisons.seed_noise import by_run
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.design.precision import POWER
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.reports.comparison import AVERAGE, AVERAGE_NOTE, DIFFERENCE_COLUMNS
from sage_cli.reports.comparison_notes import fragile_notes
from sage_cli.reports.contrast import (
    Contrast,
    adjusted,
    average_of,
    cells_at,
    contrast_json,
    contrast_of,
    difference_at,
)
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dot_plot import draw_dot_plot
from sage_cli.reports.tables.table import Measure, Row, Table, columns, to_records
from sage_cli.trials.suites.results import MethodResult, Pair, PartResult
from sage_cli.trials.suites.sections.decided import (
    claim_json,
    claims_note,
    claims_table,
    decide,
    overall_contrast,
)

Family = Mapping[tuple[str, str, str], Contrast]
"""(method, other method, benchmark) -> their contrast."""
ByMethod = Mapping[str, Mapping[str, FloatArray]]
"""Label of a method -> benchmark -> pass@k of its runs, shape (T, P, K)."""


def contrasts(result: PartResult) -> dict[Pair, dict[str, Contrast]]:
    """Return pair of methods -> benchmark (and their average) -> contrast, unadjusted."""
    pairs = result.suite.compared
    if not pairs or not result.there:
        return {}
    most = result.ks[-1]
    ks = sorted({*result.ks, *(min(claim.k, most) for claim in result.suite.read_claims)})
    pool = _several_runs(result, ks)
    by_pair: dict[Pair, dict[str, Contrast]] = {}
    for a, b in pairs:
        first, second = result.method(a), result.method(b)
        if first is not None and second is not None and first is not second:
            by_pair[a, b] = _contrast(first, second, ks, pool)
    return by_pair


def _several_runs(result: PartResult, ks: Sequence[int]) -> ByMethod:
    """Return the runs of methods with several training seeds, for the variance between seeds."""
    return {
        one.label: {
            name: by_run(runs, runs[0][0].problem_ids, ks)
            for name in one.benchmarks
            if (runs := one.side(name).runs)
        }
        for one in _repeated(result)
    }


def _repeated(result: PartResult) -> list[MethodResult]:
    return [one for one in result.there if len(one.measured) > 1 and not one.is_base]


def differences(result: PartResult) -> Document:
    """Return the section of claims, if there are any, and of the pairs' differences."""
    by_pair = contrasts(result)
    claims = decide(result, by_pair)
    flat = {(*pair, name): one for pair, by in by_pair.items() for name, one in by.items()}
    family = adjusted(flat, result.ks) if flat else {}
    tests = sum(int(np.isfinite(one.holm_K).sum()) for one in family.values())
    tables = {"claims": claims_table(claims, result)} if claims else {}
    if family:
        tables["differences"] = _table(family, result.ks)
    overall = {
        pair: one for pair, by in by_pair.items() if (one := overall_contrast(by)) is not None
    }
    return Document(
        name="claims",
        title="What the paper claims, and what was found" if claims else "Differences",
        data={
            "claims": [claim_json(one) for one in claims],
            "differences": [
                {"a": a, "b": b, "benchmark": name, **contrast_json(one)}
                for (a, b, name), one in family.items()
            ],
            "rows": [record for table in [*tables.values()][:1] for record in to_records(table)],
        },
        tables=tuple(tables.values()),
        sheets=tables,
        figures=(_forest(overall, _shown(result.ks)),) if overall else (),
        notes=(
            *claims_note(claims),
            "detectable: the smallest true difference that these problems, samples and seeds would "
            f"have shown in {POWER:.0%} of repetitions",
            *([f"p (Holm) of the differences: over the {tests} of them"] if family else []),
            *([f"average: {AVERAGE_NOTE}"] if len(result.benchmarks) > 1 else []),
            *_fragile_notes(family, result.ks),
            *_seeds_note(result),
        ),
    )


def _shown(ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k that fit into tables and pictures."""
    return ks if len(ks) <= 4 else (ks[0], ks[len(ks) // 2], ks[-1])


def _contrast(
    a: MethodResult, b: MethodResult, ks: Sequence[int], by_method: ByMethod
) -> dict[str, Contrast]:
    evaluation = a.trial.config.evaluation
    shared = [name for name in a.benchmarks if name in b.benchmarks]
    sides = [(a.side(name), b.side(name)) for name in shared]
    # the variance of an average needs runs that were measured on all of its benchmarks
    pool = [[by[name] for name in shared] for by in by_method.values() if by.keys() >= {*shared}]
    how = Resampling(evaluation.confidence, evaluation.bootstrap)
    by_benchmark = {}
    for place, (name, (first, second)) in enumerate(zip(shared, sides, strict=True)):
        runs = [[runs[place]] for runs in pool] or None
        by_benchmark[name] = contrast_of(first, second, ks, runs, how)
    if len(by_benchmark) > 1:
        by_benchmark[AVERAGE] = average_of(sides, list(by_benchmark.values()), pool or None)
    return by_benchmark


def _forest(by_pair: Mapping[Pair, Contrast], ks: Sequence[int]) -> Figure:
    draw = partial(draw_dot_plot, forest_panels(by_pair, ks), "difference", zero=True)
    return Figure("differences", draw)


def forest_panels(
    by_pair: Mapping[Pair, Contrast], ks: Sequence[int]
) -> dict[str, dict[str, dict[str, Measure]]]:
    """Return a panel for each k, a row for each method, a point for each other method."""
    panels: dict[str, dict[str, dict[str, Measure]]] = {f"pass@{k}": {} for k in ks}
    for (a, b), one in by_pair.items():
        for k in ks:
            panels[f"pass@{k}"].setdefault(a, {})[f"less {b}"] = difference_at(one, k)
    return panels


def _table(family: Family, ks: Sequence[int]) -> Table:
    differences = columns(f"a, b, {DIFFERENCE_COLUMNS}")
    heads = (
        *columns("methods, about, benchmark, k"),
        *(replace(column, part=column.name) for column in differences),
    )
    shown = _shown(ks)
    rows = []
    for (a, b, benchmark), one in family.items():
        for k in one.difference.ks:
            if k in shown:
                name = (f"{a} less {b}", one.subject, benchmark, k)
                rows.append(Row((*name, *cells_at(one, k)), section=f"{a} {b}"))
    return Table("Paired differences", heads, tuple(rows))


def _fragile_notes(family: Family, ks: Sequence[int]) -> list[str]:
    """Return warnings for pairs and benchmarks whose result rare, unseen losses could undo."""
    return [
        f"{a} less {b} on {benchmark}: {note}"
        for (a, b, benchmark), one in family.items()
        for note in fragile_notes(one.difference, ks)
    ]


def _seeds_note(result: PartResult) -> list[str]:
    """Return notes on what is random in the differences, and on the pooled seeds."""
    repeated = _repeated(result)
    notes = []
    if len(repeated) < len([one for one in result.there if not one.is_base]):
        notes.append(
            "two models, these models: a method with one training is not compared as a method; "
            "another training seed gives another model"
        )
    if not repeated:
        return notes
    freedom = sum(len(one.measured) - 1 for one in repeated)
    return [
        *notes,
        "methods: training seeds and problems are both random; method and this base: the base is "
        "one fixed model, and another base may give another difference",
        f"the variance between training seeds is pooled over {len(repeated)} "
        f"method{'' if len(repeated) == 1 else 's'} ({freedom} degrees of freedom): it is assumed "
        "that their seeds vary alike",
    ]
