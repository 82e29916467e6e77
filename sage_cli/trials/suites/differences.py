"""The paired differences between the arms of a suite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sage_cli.metrics.intervals import Resampling
from sage_cli.metrics.power import POWER
from sage_cli.reports.comparison.contrast import (
    Contrast,
    adjusted,
    average_of,
    contrast_of,
    overall_contrast,
)
from sage_cli.reports.comparison.notes import fragile_notes
from sage_cli.reports.comparison.numbers import cells_at, contrast_json, difference_at
from sage_cli.reports.comparison.report import AVERAGE_NOTE, DIFFERENCE_COLUMNS
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.dots import draw_dot_plot
from sage_cli.reports.labels import AVERAGE
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Column, Row, Table, columns
from sage_cli.trials.suites.claims import Pair, claim_json, claims_note, claims_table, decide
from sage_cli.trials.suites.declaration import shown_label
from sage_cli.trials.suites.results import MethodResult, PartResult

Family = Mapping[tuple[str, str, str], Contrast]
"""(method, other method, benchmark) -> their contrast."""


def contrasts(result: PartResult) -> dict[Pair, dict[str, Contrast]]:
    """Return pair of methods -> benchmark (and their average) -> contrast, unadjusted."""
    pairs = result.suite.compared
    if not pairs or not result.there:
        return {}
    most = result.ks[-1]
    ks = sorted({*result.ks, *(min(claim.k, most) for claim in result.suite.read_claims)})
    arms = _repeated(result)
    by_pair: dict[Pair, dict[str, Contrast]] = {}
    for a, b in pairs:
        first, second = result.method(a), result.method(b)
        if first is not None and second is not None and first is not second:
            by_pair[a, b] = _contrast(first, second, ks, arms)
    return by_pair


def _repeated(result: PartResult) -> list[MethodResult]:
    return [
        method
        for method in result.there
        if len(method.measured) > 1 and not method.trial.is_initial
    ]


def differences(result: PartResult) -> Document:
    """Return the section of claims, if there are any, and of the pairs' differences."""
    by_pair = contrasts(result)
    claims = decide(result, by_pair)
    flat = {
        (*pair, name): contrast for pair, by in by_pair.items() for name, contrast in by.items()
    }
    family = adjusted(flat, result.ks) if flat else {}
    tests = sum(int(np.isfinite(contrast.holm_K).sum()) for contrast in family.values())
    tables = {"claims": claims_table(claims, result)} if claims else {}
    if family:
        tables["differences"] = _table(family, result)
    overall = {
        pair: contrast
        for pair, by in by_pair.items()
        if (contrast := overall_contrast(by)) is not None
    }
    if (sensitivity := _hindsight(overall, result)).rows:
        tables["hindsight"] = sensitivity
    return Document(
        name="claims",
        title="Claims and their verdicts" if claims else "Differences",
        data={
            "claims": [claim_json(claim) for claim in claims],
            "differences": [
                {"a": a, "b": b, "benchmark": name, **contrast_json(contrast)}
                | {"own_control": result.suite.methods[a].control == b}
                for (a, b, name), contrast in family.items()
            ],
            "hindsight": to_records(sensitivity),
            "rows": [record for table in [*tables.values()][:1] for record in to_records(table)],
        },
        tables=tuple(tables.values()),
        sheets=tables,
        figures=(_forest(overall, _shown(result.ks)),) if overall else (),
        notes=(
            *claims_note(claims),
            "detectable: the minimum detectable difference, which these problems, samples and "
            f"seeds show in {POWER:.0%} of repetitions",
            *([f"p (Holm) of the differences: adjusted for {tests} tests"] if family else []),
            *(_resolution_note(tests, result) if family else ()),
            *([f"average: {AVERAGE_NOTE}"] if len(result.benchmarks) > 1 else []),
            *_fragile_notes(family, result.ks),
            *_seeds_note(result, family),
            *_control_notes(result),
        ),
    )


def _resolution_note(tests: int, result: PartResult) -> Iterator[str]:
    """Warn where the smallest p that resampling can give stays above the level after Holm."""
    evaluation = result.there[0].trial.config.evaluation
    level, smallest = 1 - evaluation.confidence, 1 / (evaluation.bootstrap + 1)
    if tests * smallest > level:
        enough = math.ceil(2 * tests / level / 1000) * 1000  # twice what is needed
        yield (
            f"no difference can be significant here: the smallest p of {evaluation.bootstrap:,} "
            f"resamples is {smallest:.2g}, and {tests} times as much after Holm's correction; "
            f"`sage suite report` with --set evaluation.bootstrap={enough} can tell"
        )


def _shown(ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k that fit into tables and pictures."""
    return ks if len(ks) <= 4 else (ks[0], ks[len(ks) // 2], ks[-1])


def _contrast(
    a: MethodResult, b: MethodResult, ks: Sequence[int], arms: Sequence[MethodResult]
) -> dict[str, Contrast]:
    evaluation = a.trial.config.evaluation
    resampling = Resampling(evaluation.confidence, evaluation.bootstrap)
    by_benchmark, pools = {}, []
    for name in (name for name in a.benchmarks if name in b.benchmarks):
        pools.append([arm.side(name) for arm in arms if name in arm.benchmarks])
        by_benchmark[name] = contrast_of(a.side(name), b.side(name), ks, pools[-1], resampling)
    if len(by_benchmark) > 1:
        by_benchmark[AVERAGE] = average_of(list(by_benchmark.values()), pools)
    return by_benchmark


def _forest(by_pair: Mapping[Pair, Contrast], ks: Sequence[int]) -> Figure:
    draw = partial(draw_dot_plot, forest_panels(by_pair, ks), "difference", zero=True)
    return Figure("differences", draw)


def forest_panels(
    by_pair: Mapping[Pair, Contrast], ks: Sequence[int]
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return a panel for each k, a row for each method, a point for each other method."""
    panels: dict[str, dict[str, dict[str, Estimate]]] = {f"pass@{k}": {} for k in ks}
    for (a, b), contrast in by_pair.items():
        less = f"− {shown_label(b)}"
        for k in ks:
            panels[f"pass@{k}"].setdefault(a, {})[less] = difference_at(contrast, k)
    return panels


def _table(family: Family, result: PartResult) -> Table:
    differences = columns(f"a, b, {DIFFERENCE_COLUMNS}")
    heads = (
        *columns("methods=arms, about, benchmark, k"),
        *(replace(column, part=column.name) for column in differences),
    )
    table_ks = _shown(result.ks)
    rows = []
    for (a, b, benchmark), contrast in family.items():
        own = "its baseline " if result.suite.methods[a].control == b else ""
        methods = f"{shown_label(a)} − {own}{shown_label(b)}"
        for k in contrast.difference.ks:
            if k in table_ks:
                name = (methods, contrast.subject, benchmark, k)
                rows.append(Row((*name, *cells_at(contrast, k)), section=f"{a} {b}"))
    return Table("Paired differences", heads, tuple(rows))


def _hindsight(overall: Mapping[Pair, Contrast], result: PartResult) -> Table:
    """Return each method's difference from the best of its unguided rivals, chosen afterwards."""
    plain = {
        method.label
        for method in result.there
        if not method.trial.is_initial and method.trial.config.guide.name == "none"
    }
    rows = []
    for label in (label for label, method in result.suite.methods.items() if method.control):
        rivals = {pair: {*pair} - {label} for pair in overall if label in pair}
        rivals = {pair: rival for pair, rival in rivals.items() if rival <= plain}
        for k in _shown(result.ks) if len(rivals) > 1 else ():
            gaps = {pair: difference_at(overall[pair], k) for pair in rivals}
            gaps = {pair: gap if pair[0] == label else gap.negated() for pair, gap in gaps.items()}
            best = min(gaps, key=lambda pair: gaps[pair].value)
            rows.append(Row((label, k, *rivals[best], len(rivals), gaps[best]), section=label))
    heads = (
        *columns("method=arm, k"),
        Column("best in hindsight", label="post-hoc best"),
        *columns("of, difference"),
    )
    notes = ("a sensitivity analysis: the rival was chosen by this outcome, which favours it",)
    return Table(
        "Sensitivity analysis: difference from the post-hoc best", heads, tuple(rows), notes
    )


def _fragile_notes(family: Family, ks: Sequence[int]) -> list[str]:
    """Return warnings for pairs and benchmarks whose result rare, unseen losses could undo."""
    return [
        f"{shown_label(a)} − {shown_label(b)} on {benchmark}: {note}"
        for (a, b, benchmark), contrast in family.items()
        for note in fragile_notes(contrast.difference, ks)
    ]


def _control_notes(result: PartResult) -> list[str]:
    """Return a note on each method with a guide whose own control the suite lacks."""
    return [
        f"{method.label}: the suite has no unguided baseline (the same method and anchor without "
        "the guide), so no difference shows the effect of the guide"
        for method in result.methods
        if method.trial.config.guide.name != "none"
        and not result.suite.methods[method.label].control
    ]


def _seeds_note(result: PartResult, family: Family) -> list[str]:
    """Return notes on what is random in the differences, and on the pooled seeds."""
    repeated = _repeated(result)
    notes = []
    if len(repeated) < len([method for method in result.there if not method.trial.is_initial]):
        notes.append(
            "two models, these models: arms with one training run are compared as models, not as "
            "methods; another training seed gives another model"
        )
    if not repeated:
        return notes
    return [
        *notes,
        "methods: training seeds and problems are both random; method and this base: the initial "
        "policy is one fixed model, and another may give another difference",
        *_pairing_notes(family),
        *(
            [
                f"the variance between training seeds is pooled over {len(repeated)} arms that "
                "share their seeds, which assumes that all arms and all differences vary equally; "
                "the table of claims also has each interval without pooling"
            ]
            if any(contrast.unpooled is not None for contrast in family.values())
            else []
        ),
    ]


def _pairing_notes(family: Family) -> list[str]:
    """Return which pairs of methods are paired by training seed, and which runs that leaves out."""
    notes = []
    for (a, b, benchmark), contrast in family.items():
        pairing = contrast.difference.pairing
        if pairing is not None and pairing.left_out:
            notes.append(
                f"{shown_label(a)} − {shown_label(b)} on {benchmark}: "
                f"{', '.join(pairing.left_out)} left out, because the other arm has no run with "
                "the same training seed"
            )
    pairings = [contrast.difference.pairing for contrast in family.values()]
    if any(pairing is not None for pairing in pairings):
        notes.append(
            "arms that share training seeds, initial weights and rows are compared run by run; "
            "differences.json has the correlations"
        )
    return notes
