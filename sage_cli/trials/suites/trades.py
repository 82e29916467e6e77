"""The trades of a suite: a method against the best of others at equal pass@1, policy by policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage_cli.evaluation.exact.chances import Chances
from sage_cli.metrics.comparisons.hull import (
    Curve,
    gap_along_steps,
    gap_over_temperatures,
)
from sage_cli.metrics.comparisons.over_initial_policies import (
    OverInitialPolicies,
    over_initial_policies,
)
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k
from sage_cli.metrics.intervals.distributions import holm
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.metrics.intervals.resampling import resampled_means
from sage_cli.trials.suites.comparisons import Trade
from sage_cli.trials.suites.exact import ReadReplicate

Points = tuple[FloatArray, FloatArray]
"""pass@1 and pass@k of each problem, both (P, X): X temperatures or steps."""
RESAMPLES = 400
"""Of problems; they tell a variance and no tails."""


@dataclass(frozen=True, eq=False)
class ReplicateGap:
    """A trade for one initial policy and seed; NaN where the pass@1 isn't reached.

    `at` and `best_at` are temperatures or steps, `draws_R` the difference on resampled problems.
    """

    start: str | None
    seed: int
    accuracy: float
    difference: float
    at: float
    best: str
    best_at: float
    draws_R: FloatArray


@dataclass(frozen=True, eq=False)
class TradeResult:
    """A trade on a benchmark: its replicates, and the estimate over initial policies, if any.

    `incomplete` counts replicates of the method without their counterparts.
    """

    trade: Trade
    benchmark: str
    gaps: Sequence[ReplicateGap]
    estimate: OverInitialPolicies | None
    incomplete: int
    p_holm: float = float("nan")

    @property
    def reached(self) -> list[ReplicateGap]:
        """Return the replicates in which a common pass@1 is reached."""
        return [one for one in self.gaps if np.isfinite(one.difference)]


def trade_results(
    trades: Sequence[Trade], read: Mapping[str, Sequence[ReadReplicate]], confidence: float
) -> list[TradeResult]:
    """Return each trade on each benchmark; Holm's p is over those marked primary."""
    found = []
    for trade in trades:
        own = read[trade.method]
        for benchmark in dict.fromkeys(name for one in own for name in one.end):
            found.append(_result(trade, benchmark, read, confidence))
    primary = [one for one in found if one.trade.primary and one.estimate is not None]
    adjusted = holm([one.estimate.p for one in primary if one.estimate is not None])
    by_place = dict(zip(map(id, primary), map(float, adjusted), strict=True))
    return [replace(one, p_holm=by_place.get(id(one), one.p_holm)) for one in found]


def _result(
    trade: Trade, benchmark: str, read: Mapping[str, Sequence[ReadReplicate]], confidence: float
) -> TradeResult:
    gaps = []
    for own in read[trade.method]:
        others = [_counterpart(own, read[label]) for label in trade.against]
        there = [one for one in others if one is not None]
        if len(there) == len(others):
            gaps.append(_gap(trade, benchmark, own, there))
    incomplete = len(read[trade.method]) - len(gaps)
    result = TradeResult(trade, benchmark, gaps, None, incomplete)
    by_start: dict[str | None, list[ReplicateGap]] = {}
    for one in result.reached:
        by_start.setdefault(one.start, []).append(one)
    if not by_start:
        return result
    groups = list(by_start.values())
    estimate = over_initial_policies(
        [np.array([one.difference for one in group]) for group in groups],
        [_variance([one.draws_R for one in group]) for group in groups],
        confidence,
    )
    return replace(result, estimate=estimate)


def _variance(draws_SR: Sequence[FloatArray]) -> float:
    """Return the variance of the mean over seeds; NaN where few resamples reach the target."""
    mean_R = np.mean(draws_SR, axis=0)
    reached_R = mean_R[np.isfinite(mean_R)]
    return float(reached_R.var()) if len(reached_R) > RESAMPLES / 2 else float("nan")


def _counterpart(own: ReadReplicate, others: Sequence[ReadReplicate]) -> ReadReplicate | None:
    """Return the other method's replicate of that initial policy and seed, or the former itself."""
    for one in others:
        same_seed = one.replicate.is_initial or one.replicate.seed == own.replicate.seed
        if one.start == own.start and same_seed:
            return one
    return None


def _gap(
    trade: Trade, benchmark: str, own: ReadReplicate, others: Sequence[ReadReplicate]
) -> ReplicateGap:
    policies = [own, *others]
    if trade.over == "steps":
        points = [[by[benchmark] for by in one.steps.values()] for one in policies]
        places = [np.array([*one.steps], float) for one in policies]
        values = [_passed([(each, own.temperature) for each in of], trade) for of in points]
        found = gap_along_steps(*_resampled(values))
    else:
        ends = [one.end[benchmark] for one in policies]
        places = [np.array(end.temperatures) for end in ends]
        values = [_passed([(end, t) for t in end.temperatures], trade) for end in ends]
        at = ends[0].temperatures.index(own.temperature)
        found = gap_over_temperatures(*_resampled(values), at=at)
    best = int(found.best_R[0])
    return ReplicateGap(
        own.start, own.replicate.seed, float(found.target_R[0]), float(found.difference_R[0]),
        _value_at(places[0], found.place_R[0]), trade.against[best],
        _value_at(places[1 + best], found.best_place_R[0]), found.difference_R[1:],
    )  # fmt: skip


def _value_at(points_X: FloatArray, place: float) -> float:
    if np.isnan(place):
        return float("nan")
    return float(np.interp(place, np.arange(len(points_X)), points_X))


def _passed(points: Sequence[tuple[Chances, float]], trade: Trade) -> Points:
    """Return each problem's worked pass@1 and pass@k at each temperature or step.

    pass@1 counts guesses in any case: it is what is held equal.
    """
    each = [(of.at(t), of.at(t, guesses=trade.guesses)) for of, t in points]
    first_PX = np.stack([all_P for all_P, _ in each], axis=1)
    passed_PX = np.stack([worked_pass_at_k(p_P, [trade.k])[:, 0] for _, p_P in each], axis=1)
    return first_PX, passed_PX


def _resampled(policies: Sequence[Points]) -> tuple[Curve, list[Curve]]:
    """Return the policies' curves, the first row as they are, then on resampled problems."""
    columns_PC = np.concatenate([values_PX for both in policies for values_PX in both], axis=1)
    means_RC = np.concatenate(
        [
            columns_PC.mean(axis=0)[None],
            resampled_means(columns_PC, Resampling(resamples=RESAMPLES)),
        ]
    )
    widths = [values_PX.shape[1] for both in policies for values_PX in both]
    parts = np.split(means_RC, np.cumsum(widths)[:-1], axis=1)
    own, *others = zip(parts[::2], parts[1::2], strict=True)
    return own, others
