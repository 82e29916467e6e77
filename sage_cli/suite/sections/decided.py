"""What is left of a suite's claims: a verdict on each, and what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sage_cli.metrics import About
from sage_cli.metrics.multiplicity import holm
from sage_cli.reports.comparison import AVERAGE
from sage_cli.reports.contrast import Contrast, difference_at
from sage_cli.reports.published import evaluation_tables, published_scores
from sage_cli.reports.table import UNDEFINED, Column, Measure, Row, Table
from sage_cli.suite.claims import ALPHA, Claim, Verdict
from sage_cli.suite.results import Pair, PartResult


@dataclass(frozen=True)
class Decided:
    """A claim with what was measured of it; `k` is the claim's, as far as there are samples.

    `about` is what the measurement speaks of, and `subject` the same in words; None where there
    is no measurement.
    """

    claim: Claim
    k: int
    difference: Measure
    detectable: float
    p_holm: float
    verdict: Verdict
    about: About | None
    subject: str


def decide(result: PartResult, found: Mapping[Pair, Mapping[str, Contrast]]) -> list[Decided]:
    """Every claim with its verdict; Holm's p is over the suite's claims."""
    claims = result.suite.read_claims
    if not claims:
        return []
    ks = [min(claim.k, result.ks[-1]) for claim in claims]
    cells = [_found(claim, found) for claim in claims]
    held = holm([_p_at(one, k) for one, k in zip(cells, ks, strict=True)])
    return [
        _decided(claim, k, one, p_holm, turned=(claim.a, claim.b) not in found)
        for claim, k, one, p_holm in zip(claims, ks, cells, map(float, held), strict=True)
    ]


def _p_at(one: Contrast | None, k: int) -> float:
    """The unadjusted p at `k`; NaN where nothing was measured."""
    return float("nan") if one is None else float(one.difference.p_K[one.difference.ks.index(k)])


def _decided(claim: Claim, k: int, one: Contrast | None, p_holm: float, *, turned: bool) -> Decided:
    """A claim beside its contrast, which may be of b less a (`turned`)."""
    if one is None:
        nan = float("nan")
        return Decided(claim, k, Measure(nan), nan, nan, Verdict.UNKNOWN, None, UNDEFINED)
    gap, place = difference_at(one, k), one.difference.ks.index(k)
    gap = _turned(gap) if turned else gap
    verdict = claim.verdict(gap.value, p_holm, one.about)
    smallest = float(one.smallest_K[place])
    return Decided(claim, k, gap, smallest, p_holm, verdict, one.about, one.subject)


def _found(claim: Claim, found: Mapping[Pair, Mapping[str, Contrast]]) -> Contrast | None:
    """The contrast that a claim is about, whichever way round; None where it is unmeasured."""
    pair = (claim.a, claim.b)
    by_benchmark = found.get(pair) or found.get(pair[::-1], {})
    return (
        overall_contrast(by_benchmark)
        if claim.benchmark is None
        else by_benchmark.get(claim.benchmark)
    )


def _turned(gap: Measure) -> Measure:
    """b less a from a less b; its interval's ends change places with their signs."""
    assert gap.interval is not None
    low, high = gap.interval
    return replace(gap, value=0.0 - gap.value, interval=(0.0 - high, 0.0 - low))


def claims_table(claims: Sequence[Decided], result: PartResult) -> Table:
    """A row per claim: the verdict, what it is about, the difference, and the printed one."""
    columns = tuple(
        map(Column, ("claim", "here", "about", "difference", "detectable", "p (Holm)", "paper"))
    )
    rows = []
    for one in claims:
        at = "" if one.k == one.claim.k else f" (here pass@{one.k})"
        rows.append(
            Row((
                one.claim.text + at, one.verdict.value, one.subject, one.difference,
                Measure(one.detectable), Measure(one.p_holm, digits=4, tiny=True),
                _printed(one.claim, result),
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


def claim_json(one: Decided) -> dict[str, Any]:
    """All that is known of a claim; `about` is null where nothing was measured."""
    return {
        "claim": one.claim.text,
        "k": one.k,
        "verdict": one.verdict.value,
        "about": one.about,
        **{f"difference {name}".strip(): value for name, value in one.difference.parts().items()},
        "detectable": one.detectable,
        "p_holm": one.p_holm,
    }


def claims_note(claims: Sequence[Decided]) -> list[str]:
    """What the verdicts mean."""
    if not claims:
        return []
    many = f"{len(claims)} claim{'' if len(claims) == 1 else 's'}"
    return [
        f"holds: the difference has the claim's sign and Holm's p over the {many} is at most "
        f"{ALPHA}; reversed: the other sign; indistinguishable: neither",
        *(
            ["these models: said of trained models; a method with one training has no verdict"]
            if any(one.about == "models" for one in claims)
            else []
        ),
    ]


def overall_contrast(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """A pair's contrast on the average of the benchmarks, or on the only one."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)
