"""The stopping rule of a suite, applied to the initial policies that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.intervals.sequential import Look, looks_at
from sage_cli.trials.suites.results import PartResult
from sage_cli.trials.suites.stop import Stop
from sage_cli.trials.suites.trade import Trade
from sage_cli.trials.suites.trades import trade_results


@dataclass(frozen=True)
class Stopping:
    """The looks so far at the first primary trade, the decision, and the reason for it."""

    trade: Trade
    stop: Stop
    looks: Sequence[Look]
    there: int
    unreached: Sequence[str | None] = ()
    """Initial policies of the next look that are there and reach no common pass@1."""

    @property
    def decisive(self) -> Look | None:
        """Return the first look after which the study may stop; None if it goes on."""
        for look in self.looks:
            if look.excludes_zero or look.lies_within(self.stop.within):
                return look
        return self.looks[-1] if self.looks and self.looks[-1].count == self.stop.most else None

    @property
    def decision(self) -> str:
        """Return that the study may stop, or goes on."""
        return "goes on" if self.decisive is None else "may stop"

    @property
    def why(self) -> str:
        """Return the reason of the decision, and the next look if it goes on."""
        look = self.decisive
        if look is None:
            following = next(one for one in self.stop.looks if one > self._last)
            said = f"the next look is at {following} initial policies, {self.there} are there"
            if self.unreached:
                named = ", ".join(map(str, self.unreached))
                said += f", and the two sides of {named} reach no common pass@1: add temperatures"
            if not self.looks:
                return said
            bound = self.stop.within
            within = "" if bound is None else f" and does not lie within ± {bound:g}"
            return f"at {self._last} the interval includes 0{within}; {said}"
        at = f"at {look.count} initial policies the interval"
        if look.excludes_zero:
            return f"{at} excludes 0"
        if look.lies_within(self.stop.within):
            return f"{at} lies within ± {self.stop.within:g}"
        return f"{self.stop.most} initial policies are the most that the rule allows"

    @property
    def _last(self) -> int:
        return self.looks[-1].count if self.looks else 0


def stopping(result: PartResult) -> Stopping:
    """Return the stopping rule's looks at a suite that declares one.

    A look is at the first initial policies in their declared order; it waits until all replicates
    of the trade are there for each of them.
    """
    stop, read = result.suite.stop, result.read
    assert stop is not None
    trade = next(one for one in result.suite.trades if one.primary)
    replicates = next(
        one.trial.replicates for one in result.methods if one.label == _same(trade.method, result)
    )
    starts = list(dict.fromkeys(one.start for one in replicates))
    seeds = len(replicates) // len(starts)
    looks: list[Look] = []
    unreached: list[str | None] = []
    for count in stop.looks:
        wanted = starts[:count]
        by_start = _differences(trade, result, wanted)
        if len(wanted) < count or any(len(each) < seeds for each in by_start.values()):
            break
        means = {start: float(np.mean(each)) for start, each in by_start.items()}
        unreached = [start for start, mean in means.items() if np.isnan(mean)]
        if unreached:
            break
        looks.append(looks_at(np.array([*means.values()]), stop.looks, stop.alpha)[-1])
    there = {one.start for one in read.get(trade.method, ())}
    return Stopping(trade, stop, looks, len(there), unreached)


def _same(label: str, result: PartResult) -> str:
    return result.same.get(label, label)


def _differences(
    trade: Trade, result: PartResult, starts: Sequence[str | None]
) -> dict[str | None, list[float]]:
    """Return the trade's differences by initial policy; NaN where no common pass@1 is reached."""
    confidence = result.methods[0].trial.config.evaluation.confidence
    read = {
        label: [one for one in every if one.start in starts] for label, every in result.read.items()
    }
    by_start: dict[str | None, list[float]] = {start: [] for start in starts}
    for found in trade_results([trade], read, confidence)[:1]:
        for gap in found.gaps:
            by_start[gap.start].append(gap.difference)
    return by_start
