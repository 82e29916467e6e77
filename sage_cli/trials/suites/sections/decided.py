"""The verdicts on a suite's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sage_cli.metrics import About
from sage_cli.metrics.intervals.distributions import holm
from sage_cli.reports.comparison import AVERAGE
from sage_cli.reports.contrast import Contrast, difference_at
from sage_cli.reports.tables.published import evaluation_tables, published_scores
from sage_cli.reports.tables.table import UNDEFINED, Measure, Row, Table, columns
from sage_cli.trials.suites.comparisons import ALPHA, Claim, Verdict
from sage_cli.trials.suites.results import Pair, PartResult


@dataclass(frozen=True)
class Decided:
    """A claim with its measurement; `k` is the claim's, or the largest measured one.

    `about` is what the measurement is about, None without a measurement; `subject` says it in
    words.
    """

    claim: Claim
    k: int
    difference: Measure
    detectable: float
    p_holm: float
    verdict: Verdict
    about: About | None
    subject: str


def decide(result: PartResult, by_pair: Mapping[Pair, Mapping[str, Contrast]]) -> list[Decided]:
    """Return every claim with its verdict; Holm's p is over the suite's claims."""
    claims = result.suite.read_claims
    if not claims:
        return []
    ks = [min(claim.k, result.ks[-1]) for claim in claims]
    contrasts = [_contrast(claim, by_pair) for claim in claims]
    adjusted = holm([_p_at(one, k) for one, k in zip(contrasts, ks, strict=True)]).tolist()
    return [
        _decided(claim, k, one, p_holm, turned=(claim.a, claim.b) not in by_pair)
        for claim, k, one, p_holm in zip(claims, ks, contrasts, adjusted, strict=True)
    ]


def _p_at(one: Contrast | None, k: int) -> float:
    """Return the unadjusted p at `k`; NaN without a measurement."""
    return float("nan") if one is None else float(one.difference.p_K[one.difference.ks.index(k)])


def _decided(claim: Claim, k: int, one: Contrast | None, p_holm: float, *, turned: bool) -> Decided:
    """Return a claim with its contrast, which may be of b less a (`turned`)."""
    if one is None:
        nan = float("nan")
        return Decided(claim, k, Measure(nan), nan, nan, Verdict.UNKNOWN, None, UNDEFINED)
    gap, place = difference_at(one, k), one.difference.ks.index(k)
    gap = _turned(gap) if turned else gap
    verdict = claim.verdict(gap.value, p_holm, one.about)
    smallest = float(one.smallest_K[place])
    return Decided(claim, k, gap, smallest, p_holm, verdict, one.about, one.subject)


def _contrast(claim: Claim, by_pair: Mapping[Pair, Mapping[str, Contrast]]) -> Contrast | None:
    """Return the claim's contrast, of a less b or b less a; None if it is not measured."""
    pair = (claim.a, claim.b)
    by_benchmark = by_pair.get(pair) or by_pair.get(pair[::-1], {})
    if claim.benchmark is None:
        return overall_contrast(by_benchmark)
    return by_benchmark.get(claim.benchmark)


def _turned(gap: Measure) -> Measure:
    assert gap.interval is not None
    low, high = gap.interval
    return replace(gap, value=0.0 - gap.value, interval=(0.0 - high, 0.0 - low))


def claims_table(claims: Sequence[Decided], result: PartResult) -> Table:
    """Return a row per claim: verdict, subject, difference, and the published difference."""
    heads = columns("claim, here, about, difference, detectable, p (Holm), paper")
    rows = []
    for one in claims:
        at = "" if one.k == one.claim.k else f" (here pass@{one.k})"
        numbers = (Measure(one.detectable), Measure(one.p_holm, digits=4, tiny=True))
        verdict = (one.claim.text + at, one.verdict.value, one.subject, one.difference)
        rows.append(Row((*verdict, *numbers, _published(one.claim, result))))
    return Table("Claims", heads, tuple(rows))


def _published(claim: Claim, result: PartResult) -> Measure | str:
    """Return the published difference, averaged over benchmarks as in the paper."""
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
    """Return a claim as JSON; `about` is null without a measurement."""
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
    """Return notes on the meaning of the verdicts."""
    if not claims:
        return []
    many = f"{len(claims)} claim{'' if len(claims) == 1 else 's'}"
    notes = [
        f"holds: the difference has the claim's sign and Holm's p over the {many} is at most "
        f"{ALPHA}; reversed: the other sign; indistinguishable: neither"
    ]
    if any(one.about == "models" for one in claims):
        why = "said of trained models; a method with one training has no verdict"
        notes.append(f"these models: {why}")
    return notes


def overall_contrast(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """Return a pair's contrast on the benchmarks' average, or on the only benchmark."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)
