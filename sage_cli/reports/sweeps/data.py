"""The results of a sweep: its space, its trials, and the uncertainty of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Literal

from sage_cli.metrics import About
from sage_cli.metrics.comparisons.objective import Result
from sage_cli.metrics.comparisons.ranking import Front, Ranking
from sage_cli.metrics.comparisons.winner import Winner
from sage_cli.metrics.importance import Effect

Value = float | int | str | bool
State = Literal["done", "missing", "failed", "pruned", "cancelled", "running", "left"]
SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class Axis:
    """A parameter: its short name, its setting, and its `values` or the ends of its range."""

    name: str
    key: str
    values: tuple[Value, ...] | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False

    @property
    def label(self) -> str:
        """Return its name in pictures."""
        return SYMBOLS.get(self.name, self.name)

    @property
    def is_number(self) -> bool:
        """Return True if its values are numbers."""
        return self.values is None or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )


@dataclass(frozen=True)
class TrialFailure:
    """A failure: its class, as `out of memory`, its reason, the last lines of its log."""

    kind: str
    reason: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearningCurve:
    """A record of a trial's first run over steps, `of` its name, as (step, value)."""

    of: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class SweepTrial:
    """A trial: its settings, its state, and its runs.

    `values` are the objectives' means over seeds; `runs` and `counts` (by benchmark) have an entry
    for each seed. `missing` says what the store has lost of a trial that was done, `pruned` by what
    and why a trial was pruned.
    """

    settings: Mapping[str, Value]
    state: State
    values: tuple[float, ...] | None = None
    runs: tuple[str, ...] = ()
    counts: tuple[Mapping[str, Result], ...] | None = None
    failure: TrialFailure | None = None
    pruned: str | None = None
    missing: str | None = None
    curve: LearningCurve | None = None


@dataclass(frozen=True)
class Findings:
    """The uncertainty of the values, by the trials' places; empty without counts.

    `intervals` has one for each objective, `base` those of the base. `front` needs two or more
    objectives. `winners` have by objective the paired differences of the best trial.
    """

    confidence: float
    intervals: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    base: tuple[tuple[float, float], ...] | None = None
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    front: Front | None = None
    winners: Mapping[str, Winner] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepResult:
    """The contents of a sweep's tables and pictures.

    `importances` has the parameters' effects on each objective. `reported` names the benchmarks
    that the sweep selects on although they are also reported.
    """

    axes: tuple[Axis, ...]
    objectives: tuple[str, ...]
    trials: tuple[SweepTrial, ...]
    findings: Findings
    base: SweepTrial | None = None
    importances: Mapping[str, Mapping[str, Effect]] = field(default_factory=dict)
    reported: str | None = None

    @property
    def done(self) -> list[tuple[int, SweepTrial, tuple[float, ...]]]:
        """Return the measured trials as (place, trial, values)."""
        return [
            (place, trial, trial.values)
            for place, trial in enumerate(self.trials)
            if trial.values is not None and trial.state == "done"
        ]

    @property
    def about(self) -> About:
        """Return "methods" if every measured trial has several seeds, else "models"."""
        fewest = min((len(trial.runs) for _, trial, _ in self.done), default=0)
        return "methods" if fewest > 1 else "models"

    def ranked(self, objective: str) -> list[int]:
        """Return the places of the measured trials, best first, those with the most seeds before.

        A race leaves trials with fewer seeds, of which one may have a higher value by luck.
        """
        which = self.objectives.index(objective)
        order = sorted(self.done, key=lambda done: (-len(done[1].runs), -done[2][which]))
        return [place for place, _, _ in order]

    def best(self, objective: str) -> int | None:
        """Return the place of the best trial; None if no trial is measured."""
        return next(iter(self.ranked(objective)), None)

    def best_value(self, objective: str) -> float:
        """Return the best trial's value; NaN if no trial has one."""
        place, which = self.best(objective), self.objectives.index(objective)
        values = None if place is None else self.trials[place].values
        return values[which] if values else nan

    def indistinguishable(self, objective: str) -> frozenset[int]:
        """Return the places of the trials that may equal the best; empty if that is unknown."""
        ranking = self.findings.rankings.get(objective)
        return frozenset(ranking.indistinguishable) if ranking else frozenset()

    def interval(self, place: int, objective: str) -> tuple[float, float] | None:
        """Return a trial's interval for an objective."""
        intervals = self.findings.intervals.get(place)
        return intervals[self.objectives.index(objective)] if intervals else None


def describe(trial: SweepTrial, axes: Sequence[Axis]) -> str:
    """Return the settings by their short names, as `tau=0.465 rho=0.775`."""
    return " ".join(
        f"{axis.name}={as_text(trial.settings[axis.key])}"
        for axis in axes
        if axis.key in trial.settings
    )


def as_text(value: Value) -> str:
    """Return a setting's value as text, numbers with four digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
