"""Whether a suite may stop, by the rule that it declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.intervals.sequential import Look, looks_at
from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Measure, Row, Table, columns, to_records
from sage_cli.trials.suites.comparisons import Stop, Trade
from sage_cli.trials.suites.results import PartResult
from sage_cli.trials.suites.trades import trade_results

DIGITS = 4


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
    label = result.same.get(trade.method, trade.method)
    replicates = next(one.replicates for one in result.methods if one.label == label)
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


def stopping_rule(result: PartResult) -> Document:
    """Return the section of a suite's stopping rule."""
    found = stopping(result)
    rule = found.stop
    rows = tuple(
        Row(
            (
                look.count,
                Measure(look.mean, interval=(look.low, look.high), digits=DIGITS, signed=True),
                Measure(look.alpha, digits=DIGITS),
                "excludes 0" if look.excludes_zero
                else "within" if look.lies_within(rule.within) else "open",
            )
        )
        for look in found.looks
    )  # fmt: skip
    heads = columns("initial policies, difference, level, interval")
    table = Table(f"Stopping rule: {found.decision}", heads, rows, (found.why,))
    bound = "" if rule.within is None else f", or lies within ± {rule.within:g}"
    return Document(
        name="stopping",
        title="May the study stop?",
        data={
            "trade": found.trade.name,
            "decision": found.decision,
            "why": found.why,
            "looks": to_records(table),
        },
        tables=(table,),
        sheets={"stopping": table},
        notes=(
            f"the study may stop when the interval of {found.trade.name} excludes 0{bound}, at "
            f"{', '.join(map(str, rule.looks))} initial policies",
            f"in {1 - rule.alpha:.0%} of studies no look's interval excludes the true mean; it is "
            "over initial policies, each a mean over training seeds",
        ),
    )
