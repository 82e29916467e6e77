"""Stored sweeps, for reading."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.reports.sweeps.data import SweepResult, from_data
from sage_cli.store.atomic import write_text
from sage_cli.store.json_files import read_object
from sage_cli.store.lock import DRIVER, driver, holder_of
from sage_cli.store.runs.names import full_name
from sage_cli.trials.search.folder import AGAIN, CANCEL, STATE, TASKS

REPORT, PAGE, COMMANDS = "sweep.json", "sweep.html", "commands.json"
OTHER_VERSION = (
    "read the sweep with the version that wrote it, or type it again: this version begins a sweep "
    "of its own. The runs are listed by `sage runs list`"
)
"""The next step for a sweep whose files this version can't read."""


@dataclass(frozen=True)
class StoredSweep:
    """A folder `runs/sweeps/<name>/`, read."""

    folder: Path

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.folder.name

    @property
    def state(self) -> dict[str, Any]:
        """The last state.json: space, sampler, objectives, counts of trials, the best one."""
        return read_object(self.folder / STATE, AGAIN)

    @property
    def driven_by(self) -> str | None:
        """A phrase that names the process that drives it now; None if there is none."""
        return holder_of(self.folder, DRIVER)

    @property
    def result(self) -> SweepResult | None:
        """Its last report; None before there is one.

        Raises StoreError if it is torn, or of a version of sage that wrote it otherwise.
        """
        path = self.folder / REPORT
        if not path.is_file():
            return None
        data = read_object(path, AGAIN)
        try:
            return from_data(data)
        except (AttributeError, TypeError) as error:
            raise StoreError(
                f"{path} was written by another version of sage, or edited: "
                f"{type(error).__name__}: {error}",
                OTHER_VERSION,
            ) from None

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of its last report."""
        path = self.folder / REPORT
        return read_object(path, AGAIN).get("provenance") or {} if path.is_file() else {}

    @property
    def commands(self) -> dict[str, str]:
        """The command of each trial that has runs, by its number in the last report."""
        path = self.folder / COMMANDS
        return read_object(path, AGAIN) if path.is_file() else {}

    @property
    def page(self) -> Path:
        """The page of its last report."""
        return self.folder / PAGE

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that its drivers left with an executor that outlives them."""
        path = self.folder / TASKS / "jobs.json"
        return tuple(read_object(path, AGAIN)) if path.is_file() else ()

    def cancel(self) -> None:
        """Ask the driver to stop, which it does within moments."""
        write_text(self.folder / CANCEL, "")

    def remove(self) -> None:
        """Delete the folder, unless the sweep is driven; runs stay.

        It is renamed first, so that a kill leaves it whole or gone.
        """
        aside = self.folder.with_name(f".{self.name}.old")
        with driver(self.folder, self.name):
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
        shutil.rmtree(aside)


class Sweeps:
    """All sweeps below a folder of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sweeps"

    def all(self) -> list[StoredSweep]:
        """Every sweep, the latest at the end."""
        paths = sorted(self.root.glob(f"[!.]*/{STATE}"), key=lambda path: path.stat().st_mtime)
        return [StoredSweep(path.parent) for path in paths]

    def find(self, name: str) -> StoredSweep:
        """The sweep called `name`: its name, an unambiguous part of it, or its folder."""
        if (Path(name) / STATE).is_file():
            return StoredSweep(Path(name))
        known = {sweep.name: sweep for sweep in self.all()}
        return known[full_name(name, known, "sweep", f"in {self.root}", "`sage sweeps list`")]
