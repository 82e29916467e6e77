"""The study's memory, kept by Optuna in a journal file: which cells are done, with what result."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from sage_cli.sweep.space import Cell, Space

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives

_UNDONE = (TrialState.RUNNING, TrialState.WAITING)


@dataclass(frozen=True)
class CellResult:
    """What became of a cell: its objectives and its run, or why it failed."""

    cell: Cell
    values: tuple[float, ...] | None
    run: str | None
    reason: str | None = None


class Study:
    """A grid whose cells are told apart by their values, so that none is lost or done twice.

    Optuna's own grid sampler counts failed cells as visited, hence cells are enqueued here.
    """

    def __init__(self, folder: Path, space: Space, objectives: tuple[str, ...]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.space = space
        self._study = optuna.create_study(
            study_name=folder.name,
            storage=JournalStorage(JournalFileBackend(str(folder / "journal.log"))),
            directions=["maximize"] * len(objectives),
            load_if_exists=True,
        )
        for trial in self._study.get_trials(states=_UNDONE):
            # left behind by an interruption: its run goes on under the same identity
            waiting = trial.state == TrialState.WAITING  # must be asked for before it is told
            number = self._study.ask().number if waiting else trial.number
            self._study.tell(number, state=TrialState.FAIL)

    def results(self) -> list[CellResult]:
        """Every cell's result, or its latest failure, in the grid's order."""
        latest: dict[tuple[float, ...], CellResult] = {}
        for trial in self._study.get_trials():
            key = tuple(trial.params.get(short, float("nan")) for short in self.space.keys)
            done = trial.state == TrialState.COMPLETE
            has_result = key in latest and latest[key].values is not None
            if not done and (has_result or "reason" not in trial.user_attrs):
                continue
            cell = dict(zip(self.space.keys.values(), key, strict=True))
            latest[key] = CellResult(
                cell,
                tuple(trial.values) if done else None,
                trial.user_attrs.get("run"),
                trial.user_attrs.get("reason"),
            )
        wanted = [tuple(cell.values()) for cell in self.space.cells()]
        return [latest[key] for key in wanted if key in latest]

    def pending(self) -> list[Cell]:
        """The cells that have no result yet, failed ones among them."""
        done = {tuple(r.cell.values()) for r in self.results() if r.values is not None}
        return [cell for cell in self.space.cells() if tuple(cell.values()) not in done]

    def begin(self, cell: Cell) -> optuna.Trial:
        """Open a trial for `cell`."""
        self._study.enqueue_trial({short: cell[key] for short, key in self.space.keys.items()})
        return self._study.ask(
            {
                short: CategoricalDistribution(list(values))
                for short, values in self.space.values.items()
            }
        )

    def succeed(self, trial: optuna.Trial, run: str, values: Mapping[str, float]) -> None:
        """Close a trial with its objectives."""
        trial.set_user_attr("run", run)
        self._study.tell(trial, list(values.values()))

    def fail(self, trial: optuna.Trial, reason: str) -> None:
        """Close a trial with the reason why it has none."""
        trial.set_user_attr("reason", reason)
        self._study.tell(trial, state=TrialState.FAIL)
