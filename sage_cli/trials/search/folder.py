"""A sweep's folder: the files of its driver, for the next driver and for readers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.load import with_layers
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.store.atomic import write_json, write_text
from sage_cli.store.json_files import read_object
from sage_cli.store.sweep_runs import Entry, SweepRuns, Value

STATE, CANCEL, MARK, TASKS = "state.json", "cancel", "mark", "tasks"
"""The driver's state for readers, the file that asks it to stop, the folder's identity in a
database, and the folder of configurations and logs."""
AGAIN = "remove it and type the same command again"
"""The remedy for a torn file."""


class SweepFacts(TypedDict):
    """The space and how it is searched; `view` is the study's name in its storage."""

    name: str
    space: list[dict[str, Any]]
    sampler: str
    objectives: list[str]
    storage: str | None
    view: str


class SweepState(SweepFacts):
    """state.json: how many trials ended how, and the best one."""

    trials: dict[str, int]
    best: str | None


class SweepFolder:
    """The files of `runs/sweeps/<name>/`.

    config.json is the configuration, settings.json what decides the trials' results, state.json how
    far the sweep is, runs.jsonl which run belongs to which trial; tasks/ has a configuration and
    a log for each task, and the jobs that outlive their driver.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = SweepRuns(path)

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.path.name

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """Write what decides the trials' results, unless the folder holds other settings.

        `settings` is `sweep_settings`. Raises ConfigurationError with what differs.
        """
        self.refuse_other(settings)
        write_json(self.path / "settings.json", dict(settings))

    def refuse_other(self, settings: Mapping[str, Any]) -> None:
        """Raise ConfigurationError with what differs if the folder holds other settings."""
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

    def require_storage(self, storage: str | None) -> None:
        """Raise ConfigurationError if the study is in a database and none is named.

        The stored URL is not used: a file would decide where passwords are sent.
        """
        file = self.path / STATE
        held = read_object(file, AGAIN).get("storage") if file.is_file() else None
        if held and storage is None:
            raise ConfigurationError(
                f"the study of {self.name} is in the database {held}",
                f"name it: --storage {held}",
            )

    def keep_config(self, config: SageConfig) -> None:
        """Write the configuration with which the sweep is resumed."""
        write_json(self.path / "config.json", with_layers(config))

    def mark(self) -> str:
        """The folder's identity among all folders, here and on other machines; made once."""
        return mark_of(self.path) or _new_mark(self.path)

    @property
    def tasks(self) -> Path:
        """The folder of configurations and logs."""
        return self.path / TASKS

    def write_state(self, state: SweepState) -> None:
        """Write how far the sweep is."""
        write_json(self.path / STATE, state)

    def remember(self, point: Mapping[str, Value], seed: int, run: str) -> None:
        """Enter a replicate's run in the list, unless it is there."""
        if run not in {entry.run for entry in self.runs.entries()}:
            self.runs.append(Entry(dict(point), seed, run))

    @property
    def cancelled(self) -> bool:
        """Return True if the driver was asked to stop (`sage sweeps cancel`)."""
        return (self.path / CANCEL).exists()

    def forget_cancel(self) -> None:
        """Forget a request to an earlier driver."""
        (self.path / CANCEL).unlink(missing_ok=True)


def mark_of(sweep: Path) -> str | None:
    """The mark of a sweep's folder; None if it has none."""
    file = sweep / MARK
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def _new_mark(sweep: Path) -> str:
    mark = secrets.token_hex(8)
    write_text(sweep / MARK, mark)
    return mark
