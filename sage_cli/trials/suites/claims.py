"""The verdicts on the claims that a suite declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sage_cli.metrics import About
from sage_cli.metrics.intervals import holm
from sage_cli.reports.comparison.contrast import Contrast, overall_contrast
from sage_cli.reports.comparison.numbers import NOT_BELOW, difference_at
from sage_cli.reports.estimate import UNDEFINED, Estimate, p_value
from sage_cli.reports.published import evaluation_tables, published_scores
from sage_cli.reports.tables import Row, Table, columns
from sage_cli.trials.suites.declaration import (
    ALPHA,
    BASE,
    INITIAL,
    Claim,
    Suite,
    Verdict,
    shown_label,
)
from sage_cli.trials.suites.results import PartResult

Pair = tuple[str, str]
"""The labels of two methods: the first minus the second."""
UNMEASURED = Estimate(float("nan"))


@dataclass(frozen=True)
class Decided:
    """A claim with its measurement; `k` is the claim's, or the largest measured one.

    `about` is what the measurement is about, None without a measurement; `subject` says it in
    words. `own` is the difference of the claim's method from its own `control`, if it has one.
    `unpooled` has the interval by the seeds of the claim's two methods alone, where `difference`
    pools them over the suite.
    """

    claim: Claim
    k: int
    difference: Estimate
    detectable: float
    p_holm: float
    verdict: Verdict
    about: About | None
    subject: str
    control: str | None = None
    own: Estimate = UNMEASURED
    unpooled: Estimate = UNMEASURED
    two_seeds: bool = False

    @property
    def sentence(self) -> str:
        """Return which side is above, or that they are indistinguishable, with the difference."""
        a, b = (
            f"the {INITIAL}" if label == BASE else label for label in (self.claim.a, self.claim.b)
        )
        scope = f"at pass@{self.k}" + (
            f" on {self.claim.benchmark}" if self.claim.benchmark else ""
        )
        if self.verdict is Verdict.UNKNOWN:
            return f"{a} and {b} {scope}: {self.verdict}"
        is_open = self.verdict in (Verdict.OPEN, Verdict.OPEN_MODELS)
        sign = "above" if self.difference.value > 0 else "below"
        relation = f"{'indistinguishable from' if is_open else sign} {b} {scope}: {self.difference}"
        if self.control in (None, self.claim.a, self.claim.b):
            return f"{a} is {relation}"
        return f"{a} is {relation}; difference from its baseline {self.control}: {self.own}"


def decide(result: PartResult, by_pair: Mapping[Pair, Mapping[str, Contrast]]) -> list[Decided]:
    """Return every claim with its verdict; Holm's p is over the suite's claims."""
    claims = result.suite.read_claims
    if not claims:
        return []
    ks = [min(claim.k, result.ks[-1]) for claim in claims]
    contrasts = [_claimed_contrast(claim, by_pair) for claim in claims]
    adjusted = holm(
        [_p_at(contrast, k) for contrast, k in zip(contrasts, ks, strict=True)]
    ).tolist()
    verdicts = [
        _decided(claim, k, contrast, p_holm, turned=(claim.a, claim.b) not in by_pair)
        for claim, k, contrast, p_holm in zip(claims, ks, contrasts, adjusted, strict=True)
    ]
    return [_beside_control(verdict, result.suite, by_pair) for verdict in verdicts]


def _beside_control(
    decided: Decided, suite: Suite, by_pair: Mapping[Pair, Mapping[str, Contrast]]
) -> Decided:
    """Return a claim with the difference of its method from the method's own control, if any."""
    claim = decided.claim
    for label in (claim.a, claim.b):
        if control := suite.methods[label].control:
            contrast = _claimed_contrast(replace(claim, a=label, b=control), by_pair)
            own = UNMEASURED if contrast is None else difference_at(contrast, decided.k)
            return replace(decided, control=control, own=own)
    return decided


def _p_at(contrast: Contrast | None, k: int) -> float:
    """Return the unadjusted p at `k`; NaN without a measurement."""
    if contrast is None:
        return float("nan")
    return float(contrast.difference.p_K[contrast.difference.ks.index(k)])


def _decided(
    claim: Claim, k: int, contrast: Contrast | None, p_holm: float, *, turned: bool
) -> Decided:
    """Return a claim with its contrast, which may be of b less a (`turned`)."""
    if contrast is None:
        nan = float("nan")
        return Decided(claim, k, Estimate(nan), nan, nan, Verdict.UNKNOWN, None, UNDEFINED)
    gap, index = difference_at(contrast, k), contrast.difference.ks.index(k)
    gap = gap.negated() if turned else gap
    alone = UNMEASURED
    if contrast.unpooled is not None:
        alone = difference_at(replace(contrast, difference=contrast.unpooled), k)
        alone = replace(alone.negated() if turned else alone, value=float("nan"))
    verdict = claim.verdict(gap.value, p_holm, contrast.about)
    smallest = float(contrast.smallest_K[index])
    return Decided(
        claim,
        k,
        gap,
        smallest,
        p_holm,
        verdict,
        contrast.about,
        contrast.subject,
        unpooled=alone,
        two_seeds=contrast.difference.two_seeds,
    )


def _claimed_contrast(
    claim: Claim, by_pair: Mapping[Pair, Mapping[str, Contrast]]
) -> Contrast | None:
    """Return the claim's contrast, of a less b or b less a; None if it is not measured."""
    pair = (claim.a, claim.b)
    by_benchmark = by_pair.get(pair) or by_pair.get(pair[::-1], {})
    if claim.benchmark is None:
        return overall_contrast(by_benchmark)
    named = (name for name in by_benchmark if claim.benchmark in (name, name.partition(":")[0]))
    return by_benchmark.get(next(named, claim.benchmark))


def claims_table(claims: Sequence[Decided], result: PartResult) -> Table:
    """Return a row per claim: verdict, subject, difference, and the published one if any is."""
    published = [_published(decided.claim, result) for decided in claims]
    on_paper = any(isinstance(printed, Estimate) for printed in published)
    beside = any(decided.control for decided in claims)
    heads = columns("claim, here, about")
    heads += columns("− its baseline") if beside else ()
    pooled_any = any(decided.unpooled.interval for decided in claims)
    heads += columns("difference")
    heads += columns("by its own seeds=without pooling") if pooled_any else ()
    heads += columns("detectable, p (Holm)")
    rows = []
    for decided, printed in zip(claims, published, strict=True):
        other_k = "" if decided.k == decided.claim.k else f" (here pass@{decided.k})"
        below = NOT_BELOW if decided.two_seeds else None
        p_holm = p_value(decided.p_holm, below)
        numbers = (Estimate(decided.detectable), p_holm)
        verdict = (
            " ".join(map(shown_label, decided.claim.text.split())) + other_k,
            decided.verdict.value,
            decided.subject,
            *([decided.own] if beside else []),
            decided.difference,
            *([decided.unpooled] if pooled_any else []),
        )
        rows.append(Row((*verdict, *numbers, *([printed] if on_paper else []))))
    heads += columns("paper") if on_paper else ()
    return Table("Claims", heads, tuple(rows))


def _published(claim: Claim, result: PartResult) -> Estimate | str:
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
        values = [
            by[benchmark][claim.k].value
            for benchmark in on
            if benchmark in by and claim.k in by[benchmark]
        ]
        sides.append(sum(values) / len(values) if values else float("nan"))
    return Estimate(sides[0] - sides[1], signed=True)


def claim_json(decided: Decided) -> dict[str, Any]:
    """Return a claim as JSON; `about` is null without a measurement."""
    return {
        "claim": decided.claim.text,
        "sentence": decided.sentence,
        "k": decided.k,
        "verdict": decided.verdict.value,
        "about": decided.about,
        **{
            f"difference {name}".strip(): value
            for name, value in decided.difference.parts().items()
        },
        "control": decided.control,
        **{f"less control {name}".strip(): value for name, value in decided.own.parts().items()},
        "unpooled": None if decided.unpooled.interval is None else list(decided.unpooled.interval),
        "detectable": decided.detectable,
        "p_holm": decided.p_holm,
    }


def claims_note(claims: Sequence[Decided]) -> list[str]:
    """Return notes on the meaning of the verdicts."""
    if not claims:
        return []
    many = f"{len(claims)} claim{'' if len(claims) == 1 else 's'}"
    notes = [
        "a claim holds if the difference has its sign and Holm's p over the "
        f"{many} is at most {ALPHA}; it is reversed if only the sign is the other; otherwise the "
        "two are indistinguishable"
    ]
    if any(claim.about == "models" for claim in claims):
        notes.append(
            "these models: the verdict is about trained models, because a method with one "
            "training run has none"
        )
    return notes
