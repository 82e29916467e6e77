"""A sweep's folder: what its driver keeps there for itself, for the next one, and for readers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import read_object
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.sweep_figures import LEDGER
from sage_cli.sweep.cells import Training
from sage_cli.sweep.space import Cell

Planned = tuple[Cell, int, str]
"""A cell, the number of its training, and the run's id."""

STATE, CANCEL = "state.json", "cancel"
"""What the driver writes for readers, and what a reader asks it to stop by."""
AGAIN = "remove it and type the same command again"
"""What helps where one of these files is torn."""


class SweepFacts(TypedDict):
    """What is searched, and how: `view` is the study's name in its storage."""

    name: str
    space: list[dict[str, Any]]
    sampler: str
    objectives: list[str]
    storage: str | None
    view: str


class SweepState(SweepFacts):
    """state.json: how many cells ended how, and the best one in words."""

    cells: dict[str, int]
    best: str | None


class SweepFolder:
    """The files of `runs/sweeps/<name>/`.

    config.json is the configuration, settings.json what decides the cells' results, state.json what
    the sweep has come to, ledger.jsonl which run is which cell's; cells/ has a configuration and a
    log for each run, and the jobs that outlive their driver.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """What the sweep is called."""
        return self.path.name

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """Keep what decides the cells' results; refuse a folder that holds something else.

        `settings` is `sweep_settings`. Raises ConfigurationError that names what differs.
        """
        file = self.path / "settings.json"
        if file.is_file() and (held := read_object(file, AGAIN)) != settings:
            names = sorted({*held, *settings})
            other = [name for name in names if held.get(name) != settings.get(name)]
            shown = [f"{name} was {held.get(name)}, is {settings.get(name)}" for name in other[:5]]
            more = f", and {len(other) - 5} more" if len(other) > 5 else ""
            raise ConfigurationError(
                f"the study {self.name} is of another sweep: {'; '.join(shown)}{more}",
                "give this sweep another name with --study, or leave the option out",
            )
        write_json(file, dict(settings))

    def keep_config(self, config: SageConfig) -> None:
        """Leave the configuration with which the sweep goes on."""
        write_json(self.path / "config.json", config.model_dump(mode="json"))

    @property
    def cells(self) -> Path:
        """The folder of configurations and logs."""
        return self.path / "cells"

    def write_state(self, state: SweepState) -> None:
        """Say what the sweep has come to."""
        write_json(self.path / STATE, state)

    def remember(self, training: Training) -> None:
        """Enter a training's run in the ledger, unless it is there."""
        run = training.run.id
        if run not in {known for _, _, known in self.ledger()}:
            self._ledger.append({"cell": dict(training.cell), "seed": training.seed, "run": run})

    def ledger(self) -> list[Planned]:
        """Every training that the sweep ever planned, in the order of planning."""
        return [(one["cell"], one["seed"], one["run"]) for one in self._ledger.read()]

    @property
    def _ledger(self) -> MetricsFile:
        return MetricsFile(self.path / LEDGER)

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the driver to stop (`sage sweeps cancel`)."""
        return (self.path / CANCEL).exists()

    def forget_cancel(self) -> None:
        """Begin without what was asked of an earlier driver."""
        (self.path / CANCEL).unlink(missing_ok=True)
