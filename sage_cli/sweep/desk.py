"""A sweep's folder: what its driver keeps there for itself, for the next one, and for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.sweep.cells import Training
from sage_cli.sweep.space import Cell

Planned = tuple[Cell, int, str]
"""A cell, the number of its training, and the run's id."""


class Desk:
    """The files of `runs/sweeps/<name>/`.

    config.json is the configuration, state.json what the sweep has come to, jobs.json the jobs
    that outlive their driver, ledger.jsonl which run is which cell's, cells/ a configuration and
    a log for each run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """What the sweep is called."""
        return self.folder.name

    def keep_config(self, config: SageConfig) -> None:
        """Leave the configuration with which the sweep goes on."""
        write_json(self.folder / "config.json", config.model_dump(mode="json"))

    def task_config(self, run: str, config: SageConfig) -> Path:
        """The file of a run's configuration, written."""
        path = self.folder / "cells" / f"{run}.json"
        write_json(path, config.model_dump(mode="json"))
        return path

    def log(self, run: str) -> Path:
        """Where a run's task prints."""
        return self.folder / "cells" / f"{run}.log"

    def write_state(self, **facts: Any) -> None:
        """Say what the sweep has come to."""
        write_json(self.folder / "state.json", facts)

    def note(self, training: Training) -> None:
        """Remember which cell's a run is; known ones are left alone."""
        run = training.run.id
        if run not in {known for _, _, known in self.ledger()}:
            self._ledger.append({"cell": dict(training.cell), "seed": training.seed, "run": run})

    def ledger(self) -> list[Planned]:
        """Every training that the sweep ever planned, in the order of planning."""
        return [(one["cell"], one["seed"], one["run"]) for one in self._ledger.read()]

    @property
    def _ledger(self) -> MetricsFile:
        return MetricsFile(self.folder / "ledger.jsonl")

    def keep_jobs(self, jobs: Mapping[str, str]) -> None:
        """Remember jobs that outlive this driver: job -> the run that it works on."""
        write_json(self.folder / "jobs.json", dict(jobs))

    def jobs(self) -> dict[str, str]:
        """The jobs that an earlier driver left."""
        path = self.folder / "jobs.json"
        try:
            held: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise StoreError(
                f"{path} is torn or was edited",
                "end the sweep's jobs by hand (squeue, scancel), remove the file, and type the "
                "same command again",
            ) from None
        return held

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the driver to stop (`sage sweeps cancel`)."""
        return (self.folder / "cancel").exists()

    def forget_cancel(self) -> None:
        """Begin without what was asked of an earlier driver."""
        (self.folder / "cancel").unlink(missing_ok=True)
