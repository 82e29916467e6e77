"""Paired differences of the methods that a suite compares, and what is left of its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.methods import by_run
from sage_cli.metrics.precision import POWER
from sage_cli.reports.cautions import fragile_notes
from sage_cli.reports.comparison import AVERAGE, AVERAGE_NOTE
from sage_cli.reports.contrast import (
    Contrast,
    adjusted,
    average_of,
    cells_at,
    contrast_json,
    contrast_of,
)
from sage_cli.reports.document import Document
from sage_cli.reports.render import to_records
from sage_cli.reports.table import Column, Row, Table
from sage_cli.suite.results import MethodResult, Pair, PartResult
from sage_cli.suite.sections.decided import (
    claim_json,
    claims_note,
    claims_table,
    decide,
    overall_contrast,
)
from sage_cli.suite.sections.forest import forest

ByMethod = Mapping[str, Mapping[str, FloatArray]]
"""Label of a method -> benchmark -> pass@k of its runs, shape (T, P, K)."""


def contrasts(result: PartResult) -> dict[Pair, dict[str, Contrast]]:
    """Pair of methods -> benchmark (and their average) -> contrast, unadjusted."""
    pairs = result.suite.compared
    if not pairs or not result.there:
        return {}
    most = result.ks[-1]
    ks = sorted({*result.ks, *(min(claim.k, most) for claim in result.suite.read_claims)})
    pool = _several_runs(result, ks)
    found: dict[Pair, dict[str, Contrast]] = {}
    for a, b in pairs:
        first, second = result.method(a), result.method(b)
        if first is not None and second is not None and first is not second:
            found[a, b] = _contrast(first, second, ks, pool)
    return found


def _several_runs(result: PartResult, ks: Sequence[int]) -> ByMethod:
    """The runs of the methods with several training seeds, which tell how much seeds vary."""
    return {
        one.label: {
            name: by_run(runs, runs[0][0].problem_ids, ks)
            for name in one.benchmarks
            if (runs := one.side(name).runs)
        }
        for one in _repeated(result)
    }


def _repeated(result: PartResult) -> list[MethodResult]:
    """The methods with several measured training seeds."""
    return [one for one in result.there if len(one.measured) > 1 and not one.is_base]


def differences(result: PartResult) -> Document:
    """The claims first, where there are some, then a table of each pair."""
    found = contrasts(result)
    claims = decide(result, found)
    flat = {"\0".join((*pair, name)): one for pair, by in found.items() for name, one in by.items()}
    family = adjusted(flat, result.ks) if flat else {}
    tests = sum(int(np.isfinite(one.holm_K).sum()) for one in family.values())
    claimed = [claims_table(claims, result)] if claims else []
    gaps = [_table(family, result.ks)] if family else []
    tables = [*claimed, *gaps]
    overall = {pair: one for pair, by in found.items() if (one := overall_contrast(by)) is not None}
    return Document(
        name="claims",
        title="What the paper claims, and what was found" if claims else "Differences",
        data={
            "claims": [claim_json(one) for one in claims],
            "differences": [
                {"a": a, "b": b, "benchmark": name, **contrast_json(one)}
                for key, one in family.items()
                for a, b, name in [key.split("\0")]
            ],
            "rows": [record for table in tables[:1] for record in to_records(table)],
        },
        tables=tuple(tables),
        sheets=dict(zip((*["claims"] * len(claimed), "differences"), tables, strict=False)),
        figures=(forest(overall, _shown(result.ks)),) if overall else (),
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
    """The values of k that there is room for."""
    return ks if len(ks) <= 4 else (ks[0], ks[len(ks) // 2], ks[-1])


def _contrast(
    a: MethodResult, b: MethodResult, ks: Sequence[int], by_method: ByMethod
) -> dict[str, Contrast]:
    evaluation = a.trial.config.evaluation
    shared = [name for name in a.benchmarks if name in b.benchmarks]
    sides = [(a.side(name), b.side(name)) for name in shared]
    # runs of methods that weren't measured on all of these can't tell how averages vary
    pool = [[by[name] for name in shared] for by in by_method.values() if by.keys() >= {*shared}]
    found = {
        name: contrast_of(
            *pair, ks, [[runs[place]] for runs in pool] or None,
            confidence=evaluation.confidence, resamples=evaluation.bootstrap,
        )
        for place, (name, pair) in enumerate(zip(shared, sides, strict=True))
    }  # fmt: skip
    if len(found) > 1:
        found[AVERAGE] = average_of(sides, list(found.values()), pool or None)
    return found


def _table(family: Mapping[str, Contrast], ks: Sequence[int]) -> Table:
    numbers_of = ("a", "b", "difference", "safe", "detectable", "p", "p (Holm)")
    columns = (
        *map(Column, ("methods", "about", "benchmark", "k")),
        *(Column(name, part=name) for name in numbers_of),
    )
    shown = _shown(ks)
    rows = []
    for key, one in family.items():
        a, b, benchmark = key.split("\0")
        for k in one.difference.ks:
            if k in shown:
                beginning = (f"{a} less {b}", one.subject, benchmark, k)
                rows.append(Row((*beginning, *cells_at(one, k)), section=f"{a} {b}"))
    return Table("Paired differences", columns, tuple(rows))


def _fragile_notes(family: Mapping[str, Contrast], ks: Sequence[int]) -> list[str]:
    """A warning for each pair and benchmark where rare, unseen losses could undo what was found."""
    return [
        f"{a} less {b} on {benchmark}: {note}"
        for key, one in family.items()
        for a, b, benchmark in [key.split("\0")]
        for note in fragile_notes(one.difference, ks)
    ]


def _seeds_note(result: PartResult) -> list[str]:
    """What is random in the differences, and what is assumed of the seeds."""
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
