"""A sweep's outcome as data: what was searched, what became of each cell, how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sage_cli.metrics import About, Counts
from sage_cli.metrics.comparisons.ranking import Front, Ranking

Value = float | int | str | bool
State = Literal["done", "missing", "failed", "pruned", "cancelled", "running", "left"]
SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class Axis:
    """A parameter: its short name, its setting, and its `values`, or the ends of its range."""

    name: str
    key: str
    values: tuple[Value, ...] | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False

    @property
    def label(self) -> str:
        """What a picture calls it."""
        return SYMBOLS.get(self.name, self.name)

    @property
    def is_number(self) -> bool:
        """Whether its values have places on a line."""
        return self.values is None or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )


@dataclass(frozen=True)
class CellFailure:
    """Why a cell has no result: a class as `out of memory`, the reason, its log's last lines."""

    kind: str
    reason: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class SweepCell:
    """A cell: its settings (those it has), what became of it, and the runs it led to.

    `values` are the objectives', means over seeds; `runs` has an id for each seed, `counts` what
    was measured of it, by benchmark. A cell that was done and of which the store has not all of it
    any more is `missing`, and says what. `pruned` says by what and why.
    """

    settings: Mapping[str, Value]
    state: State
    values: tuple[float, ...] | None = None
    runs: tuple[str, ...] = ()
    counts: tuple[Mapping[str, Counts], ...] | None = None
    failure: CellFailure | None = None
    pruned: str | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Findings:
    """How sure the values are. Places are those of the cells; without counts nothing is known.

    `intervals` has one for each objective, `base` those of the base. `front` is that of two or
    more objectives.
    """

    confidence: float
    intervals: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    base: tuple[tuple[float, float], ...] | None = None
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    front: Front | None = None


@dataclass(frozen=True)
class SweepResult:
    """All that a sweep's tables and pictures show.

    `importances` has for each objective the parameters' shares. `reported` names the problems that
    the sweep selects on although they are also reported.
    """

    axes: tuple[Axis, ...]
    objectives: tuple[str, ...]
    cells: tuple[SweepCell, ...]
    findings: Findings
    base: SweepCell | None = None
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reported: str | None = None

    @property
    def done(self) -> list[tuple[int, SweepCell, tuple[float, ...]]]:
        """The measured cells with their places and values."""
        return [
            (place, cell, cell.values)
            for place, cell in enumerate(self.cells)
            if cell.values is not None and cell.state == "done"
        ]

    @property
    def about(self) -> About:
        """What rankings are about: "methods" if every measured cell has several seeds."""
        fewest = min((len(cell.runs) for _, cell, _ in self.done), default=0)
        return "methods" if fewest > 1 else "models"

    def best(self, objective: str) -> int | None:
        """The place of the cell with the highest value; None where no cell has one."""
        which = self.objectives.index(objective)
        return max(self.done, key=lambda one: one[2][which], default=(None,))[0]

    def alike(self, objective: str) -> frozenset[int]:
        """Places of the cells that can't be told apart from the best; empty where none is known."""
        ranking = self.findings.rankings.get(objective)
        return frozenset(ranking.indistinguishable) if ranking else frozenset()

    def interval(self, place: int, objective: str) -> tuple[float, float] | None:
        """A cell's, of one objective."""
        found = self.findings.intervals.get(place)
        return found[self.objectives.index(objective)] if found else None


def in_words(cell: SweepCell, axes: Sequence[Axis]) -> str:
    """`tau=0.465 rho=0.775`: the settings by their short names."""
    return " ".join(
        f"{axis.name}={as_text(cell.settings[axis.key])}"
        for axis in axes
        if axis.key in cell.settings
    )


def as_text(value: Value) -> str:
    """A setting's value, numbers to four digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
