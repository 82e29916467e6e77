"""Paired differences of the methods that a suite compares, and what is left of its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sage_cli.metrics.multiplicity import holm
from sage_cli.metrics.precision import POWER
from sage_cli.reports.comparison import AVERAGE, AVERAGE_NOTE
from sage_cli.reports.contrast import (
    Contrast,
    adjusted,
    average_of,
    cells_at,
    contrast_json,
    contrast_of,
    difference_at,
)
from sage_cli.reports.document import Document
from sage_cli.reports.published import evaluation_tables, published_scores
from sage_cli.reports.render import to_records
from sage_cli.reports.table import UNDEFINED, Column, Measure, Row, Table
from sage_cli.suite.claims import ALPHA, Claim, Verdict
from sage_cli.suite.results import MethodResult, Pair, PartResult
from sage_cli.suite.sections.forest import forest


@dataclass(frozen=True)
class Decided:
    """A claim with what was measured of it; `k` is the claim's, as far as there are samples."""

    claim: Claim
    k: int
    difference: Measure
    detectable: float
    p_holm: float
    verdict: Verdict


def contrasts(result: PartResult) -> dict[Pair, dict[str, Contrast]]:
    """Pair of methods -> benchmark (and their average) -> contrast, unadjusted."""
    pairs = result.suite.compared
    if not pairs or not result.there:
        return {}
    most = result.ks[-1]
    ks = sorted({*result.ks, *(min(claim.k, most) for claim in result.suite.read_claims)})
    found: dict[Pair, dict[str, Contrast]] = {}
    for a, b in pairs:
        first, second = result.method(a), result.method(b)
        if first is not None and second is not None and first is not second:
            found[a, b] = _contrast(first, second, ks)
    return found


def decide(result: PartResult, found: Mapping[Pair, Mapping[str, Contrast]]) -> list[Decided]:
    """Every claim with its verdict; Holm's p is over the suite's claims."""
    claims = result.suite.read_claims
    if not claims:
        return []
    cells = [_cell(claim, found, result.ks[-1]) for claim in claims]
    held = holm([float("nan") if cell is None else cell[1] for cell in cells])
    every = []
    for claim, cell, p_holm in zip(claims, cells, map(float, held), strict=True):
        k = min(claim.k, result.ks[-1])
        difference, _, smallest = cell or (Measure(float("nan")), 1.0, float("nan"))
        verdict = claim.verdict(difference.value, p_holm)
        every.append(Decided(claim, k, difference, smallest, p_holm, verdict))
    return every


def differences(result: PartResult) -> Document:
    """The claims first, where there are some, then a table of each pair."""
    found = contrasts(result)
    claims = decide(result, found)
    flat = {"\0".join((*pair, name)): one for pair, by in found.items() for name, one in by.items()}
    family = adjusted(flat, result.ks) if flat else {}
    tests = sum(int(np.isfinite(one.holm_K).sum()) for one in family.values())
    claimed = [_claims_table(claims, result)] if claims else []
    gaps = [_table(family, result.ks)] if family else []
    tables = [*claimed, *gaps]
    overall = {pair: one for pair, by in found.items() if (one := _overall(by)) is not None}
    return Document(
        name="claims",
        title="What the paper claims, and what was found" if claims else "Differences",
        data={
            "claims": [_claim_json(one) for one in claims],
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
            *_claims_note(claims),
            "detectable: the smallest true difference that these problems, samples and seeds would "
            f"have shown in {POWER:.0%} of repetitions",
            *([f"p (Holm) of the differences: over the {tests} of them"] if family else []),
            *([f"average: {AVERAGE_NOTE}"] if len(result.benchmarks) > 1 else []),
            *_seeds_note(result),
        ),
    )


def _overall(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """A pair's contrast on the average of the benchmarks, or on the only one."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)


def _shown(ks: Sequence[int]) -> Sequence[int]:
    """The values of k that there is room for."""
    return ks if len(ks) <= 4 else (ks[0], ks[len(ks) // 2], ks[-1])


def _claims_note(claims: Sequence[Decided]) -> list[str]:
    if not claims:
        return []
    return [
        f"holds: the difference has the claim's sign and Holm's p over the {len(claims)} "
        f"claims is at most {ALPHA}; reversed: the other sign; not told apart: neither"
    ]


def _contrast(a: MethodResult, b: MethodResult, ks: Sequence[int]) -> dict[str, Contrast]:
    evaluation = a.arms[0].config.evaluation
    shared = [name for name in a.benchmarks if name in b.benchmarks]
    sides = [(a.side(name), b.side(name)) for name in shared]
    found = {
        name: contrast_of(
            *pair, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap
        )
        for name, pair in zip(shared, sides, strict=True)
    }
    if len(found) > 1:
        found[AVERAGE] = average_of(sides, list(found.values()))
    return found


def _cell(
    claim: Claim, found: Mapping[Pair, Mapping[str, Contrast]], most: int
) -> tuple[Measure, float, float] | None:
    """Difference with its interval, p, and what could have been seen; None where unmeasured."""
    pair = (claim.a, claim.b)
    turned = pair not in found
    by_benchmark = found.get(pair[::-1] if turned else pair, {})
    one = _overall(by_benchmark) if claim.benchmark is None else by_benchmark.get(claim.benchmark)
    if one is None:
        return None
    k = min(claim.k, most)
    place, gap = one.difference.ks.index(k), difference_at(one, k)
    return (
        _turned(gap) if turned else gap,
        float(one.difference.p_K[place]),
        float(one.smallest_K[place]),
    )


def _turned(gap: Measure) -> Measure:
    """b less a from a less b; its interval's ends change places with their signs."""
    assert gap.interval is not None
    low, high = gap.interval
    return replace(gap, value=0.0 - gap.value, interval=(0.0 - high, 0.0 - low))


def _claims_table(claims: Sequence[Decided], result: PartResult) -> Table:
    columns = tuple(map(Column, ("claim", "here", "difference", "detectable", "p (Holm)", "paper")))
    rows = []
    for one in claims:
        at = "" if one.k == one.claim.k else f" (here pass@{one.k})"
        rows.append(
            Row((
                one.claim.text + at, one.verdict.value, one.difference, Measure(one.detectable),
                Measure(one.p_holm, digits=4, tiny=True), _printed(one.claim, result),
            ))
        )  # fmt: skip
    return Table("Claims", columns, tuple(rows))


def _printed(claim: Claim, result: PartResult) -> Measure | str:
    """The printed difference, averaged over benchmarks as the paper does."""
    name = result.suite.published
    if name not in evaluation_tables():
        return UNDEFINED
    assert name is not None
    scores = published_scores(name)
    sides = []
    for label in (claim.a, claim.b):
        by = scores.get(label) or (published_scores("table1")["base"] if label == "base" else {})
        on = [claim.benchmark] if claim.benchmark else list(by)
        values = [by[one][claim.k].value for one in on if one in by and claim.k in by[one]]
        sides.append(sum(values) / len(values) if values else float("nan"))
    return Measure(sides[0] - sides[1], signed=True)


def _table(family: Mapping[str, Contrast], ks: Sequence[int]) -> Table:
    numbers_of = ("a", "b", "difference", "detectable", "p", "p (Holm)")
    columns = (
        *map(Column, ("methods", "benchmark", "k")),
        *(Column(name, part=name) for name in numbers_of),
    )
    shown = _shown(ks)
    rows = []
    for key, one in family.items():
        a, b, benchmark = key.split("\0")
        for k in one.difference.ks:
            if k in shown:
                beginning = (f"{a} less {b}", benchmark, k)
                rows.append(Row((*beginning, *cells_at(one, k)), section=f"{a} {b}"))
    return Table("Paired differences", columns, tuple(rows))


def _claim_json(one: Decided) -> dict[str, Any]:
    return {
        "claim": one.claim.text,
        "k": one.k,
        "verdict": one.verdict.value,
        **{f"difference {name}".strip(): value for name, value in one.difference.parts().items()},
        "detectable": one.detectable,
        "p_holm": one.p_holm,
    }


def _seeds_note(result: PartResult) -> list[str]:
    runs = {len(one.measured) for one in result.there}
    if runs == {1}:
        return ["one training of each method: intervals are about these models, not their methods"]
    return [
        "differences to the base are about the trained models at hand, their mean; those of two "
        "methods are about the methods, training seeds and problems both random"
    ]
