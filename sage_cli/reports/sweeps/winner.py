"""What a sweep says of its best trial: paired differences, and the optimism of the choice."""

from __future__ import annotations

import math

from sage_cli.metrics.comparisons.winner import Gap, Optimism, Winner
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.tables.table import UNDEFINED, Cell, Column, Measure, Row, Table


def winner_table(result: SweepResult) -> Table:
    """Return a column per objective: the best trial less the base and the second, its optimism."""
    winners = list(result.winners.values())
    known = any(one.optimism and one.optimism.estimate is not None for one in winners)
    rows: list[tuple[str, list[Cell]]] = [
        ("trial", [str(one.best + 1) for one in winners]),
        ("less initial policy", [gap_measure(one.over_base) for one in winners]),
        ("second best trial", [_number(one.second) for one in winners]),
        ("less second best", [gap_measure(one.over_second) for one in winners]),
    ]
    nothing = Optimism(None, math.nan, math.nan)
    chosen = [one.optimism or nothing for one in winners]
    if known:
        rows.append(("optimism", [_measure(one.estimate) for one in chosen]))
    else:
        rows.append(("optimism at least", [_measure(one.least) for one in chosen]))
        rows.append(("optimism at most", [_measure(one.most) for one in chosen]))
    columns = (Column(""), *(Column(name, part=name) for name in result.winners))
    return Table(
        "the best trial",
        columns,
        tuple(Row((name, *cells)) for name, cells in rows),
        _notes(result, known),
    )


def _notes(result: SweepResult, known: bool) -> tuple[str, ...]:
    found = [
        "paired differences, whose intervals do not allow for the choice of the best: "
        "a sweep over the best trials with other seeds measures what is left of them"
    ]
    if all(one.optimism is None for one in result.winners.values()):
        return tuple(found)
    found.append(
        f"optimism: how much the highest of {len(result.done)} values overstates its trial on "
        "average, because it was chosen for being the highest"
    )
    if not known:
        found.append(
            "one seed per trial does not show how seeds vary: `at least` counts problems alone, "
            "`at most` holds if all trials were equal; --seeds 3 gives an estimate"
        )
    return tuple(found)


def describe_winner(one: Winner) -> list[str]:
    """Return a sentence for each thing that is known of the best trial."""
    said = []
    if one.over_base is not None:
        said.append(f"less initial policy: {_gap(one.over_base)}")
    if one.over_second is not None and one.second is not None:
        said.append(f"less the second best, trial {one.second + 1}: {_gap(one.over_second)}")
    if one.optimism is not None:
        said.append(f"optimism of the choice: {_sentence(one.optimism)}")
    return said


def short_note(result: SweepResult, objective: str) -> str:
    """Return the best trial's lead over the base and its optimism, for a picture; "" if unknown."""
    one = result.winners.get(objective)
    if one is None:
        return ""
    lines = [f"best less initial policy {_gap(one.over_base)}"] if one.over_base else []
    if one.optimism is not None:
        lines.append(f"optimism {_span(one.optimism)}")
    return "\n".join(lines)


def _sentence(optimism: Optimism) -> str:
    if optimism.estimate is not None:
        return f"about {optimism.estimate:.3f}"
    return (
        f"{_span(optimism)}; one seed per trial does not show how seeds vary, so the first number "
        "counts problems alone, and the second holds if all trials were equal"
    )


def _span(optimism: Optimism) -> str:
    if optimism.estimate is not None:
        return f"{optimism.estimate:.3f}"
    if math.isnan(optimism.least):
        return f"at most {optimism.most:.3f}"
    return f"at least {optimism.least:.3f}, at most {optimism.most:.3f}"


def _measure(value: float | None) -> Measure:
    return Measure(math.nan if value is None else value)


def _number(place: int | None) -> str:
    return UNDEFINED if place is None else str(place + 1)


def gap_measure(gap: Gap | None) -> Measure:
    """Return a difference with its sign and interval, as a cell."""
    if gap is None:
        return Measure(math.nan)
    return Measure(gap.value, interval=(gap.low, gap.high), signed=True)


def _gap(gap: Gap) -> str:
    return str(gap_measure(gap))
