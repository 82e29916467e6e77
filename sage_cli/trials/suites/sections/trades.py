"""Trades over initial policies: estimates, each initial policy's own, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from sage_cli.metrics.comparisons.over_initial_policies import FEWEST
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dot_plot import draw_dot_plot
from sage_cli.reports.tables.table import Measure, Row, Table, columns, to_records
from sage_cli.trials.suites.results import PartResult
from sage_cli.trials.suites.trades import ReplicateGap, TradeResult, trade_results

DIGITS = 4
NONE = Measure(float("nan"))
SERIES = "by initial policy"
OWN = "own"
"""The name of the initial policy of a suite that names none."""


def trades(result: PartResult) -> Document:
    """Return the section of a suite's trades."""
    confidence = result.methods[0].trial.config.evaluation.confidence
    found = trade_results(result.suite.trades, result.read, confidence)
    estimates, replicates = _estimates(found), _replicates(found)
    primary = any(one.trade.primary for one in found)
    shown = [one for one in found if one.reached and one.trade.primary >= primary]
    return Document(
        name="trades",
        title="At equal pass@1, over initial policies",
        data={
            "declared": [trade.model_dump(mode="json") for trade in result.suite.trades],
            "trades": to_records(estimates),
            "replicates": to_records(replicates),
        },
        tables=(estimates, _declared(found), _by_initial_policy(found)),
        sheets={"trades": estimates, "trades-replicates": replicates},
        figures=(Figure("trades", partial(draw_forest, shown)),) if shown else (),
        notes=tuple(_notes(found)),
    )


def draw_forest(found: Sequence[TradeResult], stem: Path) -> None:
    """Draw trades' differences by initial policy, and their means with intervals."""
    draw_dot_plot(forest(found), "difference in pass@k", stem, zero=True)


def forest(found: Sequence[TradeResult]) -> dict[str, dict[str, dict[str, Measure]]]:
    """Return a panel for each trade, a row for each initial policy, their mean last."""
    several = len({one.benchmark for one in found}) > 1
    panels: dict[str, dict[str, dict[str, Measure]]] = {}
    for one in found:
        name = f"{one.trade.name} on {one.benchmark}" if several else one.trade.name
        rows = {start: {SERIES: Measure(_mean(gaps))} for start, gaps in _by_start(one).items()}
        mean = {} if one.estimate is None else {"mean": {SERIES: _estimated(one)}}
        panels[name] = {**rows, **mean}
    return panels


def _declared(found: Sequence[TradeResult]) -> Table:
    """Return a row for each trade: what it lays beside what."""
    heads = columns("trade, method, less the best of, at equal pass@1 over, difference in, test")
    rows = []
    for trade in dict.fromkeys(one.trade for one in found):
        k = f"pass@{trade.k}" + ("" if trade.guesses else " without guesses")
        test = "primary" if trade.primary else "secondary"
        against = ", ".join(trade.against)
        rows.append(Row((trade.name, trade.method, against, trade.over, k, test)))
    return Table("What is compared", heads, tuple(rows))


def _estimates(found: Sequence[TradeResult]) -> Table:
    heads = columns(
        "trade, benchmark, initial policies, difference, p, p (Holm), spread, between policies, "
        "between seeds, of problems"
    )
    rows = []
    for one in found:
        name, estimate = (one.trade.name, one.benchmark), one.estimate
        if estimate is None:
            rows.append(Row((*name, 0, *[NONE] * 7)))
            continue
        tests = [Measure(p, digits=4, tiny=True) for p in (estimate.p, one.p_holm)]
        deviations = (estimate.spread, estimate.between, estimate.seeds, estimate.problems)
        parts = [Measure(value, digits=DIGITS) for value in deviations]
        rows.append(Row((*name, estimate.policies, _estimated(one), *tests, *parts)))
    return Table("At equal pass@1", heads, tuple(rows))


def _estimated(one: TradeResult) -> Measure:
    assert one.estimate is not None
    interval = (one.estimate.low, one.estimate.high)
    return Measure(one.estimate.difference, interval=interval, digits=DIGITS, signed=True)


def _by_initial_policy(found: Sequence[TradeResult]) -> Table:
    starts = list(dict.fromkeys(start for one in found for start in _by_start(one)))
    rows = []
    for one in found:
        by = _by_start(one)
        cells = (_cell(by[start]) if start in by else NONE for start in starts)
        rows.append(Row((one.trade.name, one.benchmark, *cells)))
    heads = columns(", ".join(["trade", "benchmark", *starts]))
    note = "means over training seeds ± their deviation"
    return Table("Differences by initial policy", heads, tuple(rows), (note,))


def _cell(gaps: Sequence[ReplicateGap]) -> Measure:
    values = [one.difference for one in gaps]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Measure(_mean(gaps), sd=sd, digits=DIGITS, signed=True)


def _replicates(found: Sequence[TradeResult]) -> Table:
    heads = columns("trade, benchmark, initial policy, seed, pass@1, difference, at, best, best at")
    rows = [
        Row(
            (
                one.trade.name, one.benchmark, gap.start or OWN, gap.seed + 1,
                Measure(gap.accuracy, digits=DIGITS), Measure(gap.difference, digits=DIGITS),
                Measure(gap.at, digits=3), gap.best, Measure(gap.best_at, digits=3),
            )
        )
        for one in found
        for gap in one.gaps
    ]  # fmt: skip
    return Table("Replicates", heads, tuple(rows))


def _by_start(one: TradeResult) -> Mapping[str, list[ReplicateGap]]:
    found: dict[str, list[ReplicateGap]] = {}
    for gap in one.reached:
        found.setdefault(gap.start or OWN, []).append(gap)
    return found


def _mean(gaps: Sequence[ReplicateGap]) -> float:
    return float(np.mean([one.difference for one in gaps]))


def _notes(found: Sequence[TradeResult]) -> list[str]:
    notes = [
        "difference: worked pass@k of the method less the best of the others where both have the "
        "same worked pass@1; a mean over the training seeds of each initial policy, then over "
        "initial policies, with Student's t over these",
        "over temperature: the target is the smaller pass@1 of the two sides at the evaluation's "
        "temperature, pass@k is interpolated between temperatures; over steps: the largest pass@1 "
        "that both reach, which is made to rise along the steps",
        "spread: the deviation between the initial policies' means, and what of it is due to "
        "initial policies themselves, to one training seed, to the problems of one initial policy",
        "p (Holm): over the trades marked primary",
    ]
    notes += _without_an_interval(found)
    for one in found:
        name = one.trade.name
        if unreached := len(one.gaps) - len(one.reached):
            notes.append(
                f"{name}: {unreached} of {len(one.gaps)} replicates never have the same pass@1 and "
                "are left out; add temperatures or steps"
            )
        if one.incomplete:
            notes.append(f"{name}: {one.incomplete} replicates wait for those they are laid beside")
    return notes


def _without_an_interval(found: Sequence[TradeResult]) -> list[str]:
    """Return a note for each number of initial policies that is too small for an interval."""
    few: dict[int, list[str]] = {}
    for one in found:
        policies = one.estimate.policies if one.estimate else 0
        if policies < FEWEST:
            few.setdefault(policies, []).append(one.trade.name)
    return [
        f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: "
        f"{policies} initial polic{'y' if policies == 1 else 'ies'} of at least {FEWEST} that an "
        "interval needs; add some to initial_policies"
        for policies, names in few.items()
    ]
