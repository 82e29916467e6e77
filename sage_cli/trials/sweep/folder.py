"""A sweep's folder: its state, runs, pages and commands, which outlive its driver."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from sage_cli.config.consent import own_files, set_words
from sage_cli.config.load import with_layers
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.settings.presets import read_layer
from sage_cli.store.json_files import read_object, write_json, write_object
from sage_cli.store.locks import DRIVER, holder_of
from sage_cli.store.names import full_name
from sage_cli.store.sweep_runs import FactValue, SweepEntry, SweepRuns

if TYPE_CHECKING:
    from sage_cli.trials.sweep.result import SweepResult

STATE, TASKS = "state.json", "tasks"
"""The driver's state for readers, and the folder of configurations and logs."""
CONFIG, SETTINGS = "config.json", "settings.json"
REPORT, PAGE = "sweep.json", "sweep.html"
AGAIN = "remove it and type the same command again"
"""The remedy for a corrupt file."""
OTHER_VERSION = (
    "read the sweep with the version that wrote it, or type it again: this version begins a sweep "
    "of its own. The runs are listed by `sage runs list`"
)
"""The next step for a sweep whose files this version can't read."""


class SweepFacts(TypedDict):
    """The space and how it is searched; `view` is the study's name in its journal."""

    name: str
    space: list[dict[str, Any]]
    sampler: str
    objectives: list[str]
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
        """Name of the sweep."""
        return self.path.name

    def check_same(self, settings: Mapping[str, Any], is_read: Callable[[str], bool]) -> None:
        """Write what decides the trials' results, unless the folder holds other settings.

        `settings` is `sweep_settings`; one that nothing reads may differ. Raises ConfigurationError
        with what differs.
        """
        held = self._held(SETTINGS)
        stored = settings if held is None else held
        differing = [
            name
            for name in sorted({*stored, *settings})
            if stored.get(name) != settings.get(name) and is_read(name)
        ]
        if differing:
            changes = [
                f"{name} was {stored.get(name)}, is {settings.get(name)}" for name in differing[:5]
            ]
            more = f", and {len(differing) - 5} more" if len(differing) > 5 else ""
            raise ConfigurationError(
                f"the study {self.name} belongs to another sweep: {'; '.join(changes)}{more}",
                "give this sweep another name with --study, or leave the option out",
            )
        write_object(self.path / SETTINGS, dict(settings))

    def keep_config(self, config: SageConfig) -> None:
        """Write the configuration with which the sweep is resumed."""
        write_json(self.path / CONFIG, with_layers(config))

    @property
    def tasks(self) -> Path:
        """The folder of configurations and logs."""
        return self.path / TASKS

    def write_state(self, state: SweepState) -> None:
        """Write how far the sweep is."""
        write_object(self.path / STATE, state)

    def remember(self, point: Mapping[str, FactValue], seed: int, run: str) -> None:
        """Enter a replicate's run in the list, unless it is there."""
        if run not in {entry.run for entry in self.runs.entries()}:
            self.runs.append(SweepEntry(dict(point), seed, run))

    @property
    def state(self) -> dict[str, Any]:
        """The last state.json: space, sampler, objectives, counts of trials, the best one."""
        return read_object(self.path / STATE, AGAIN)

    @property
    def driven_by(self) -> str | None:
        """A phrase that names the process that drives it now; None if there is none."""
        return holder_of(self.path, DRIVER)

    @property
    def result(self) -> SweepResult | None:
        """Its last report; None before there is one.

        Raises StoreError if it is corrupt, or of a version of sage that wrote it otherwise.
        """
        from sage_cli.trials.sweep.result import from_data

        data = self._held(REPORT)
        try:
            return None if data is None else from_data(data)
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path / REPORT} was written by another version of sage, or edited: "
                f"{type(error).__name__}: {error}",
                OTHER_VERSION,
            ) from None

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of its last report."""
        return (self._held(REPORT) or {}).get("provenance") or {}

    def commands(self, result: SweepResult) -> dict[str, str]:
        """Return the `sage rl` that leads to each trial's first run, by the trial's number."""
        functions = set_words(own_files(read_layer(self.path / CONFIG)))
        return {
            str(number): shlex.join(
                ("sage", "rl", "--config", str(self._config_of(trial.runs[0])), *functions)
            )
            for number, trial in enumerate(result.trials, 1)
            if trial.runs
        }

    def _config_of(self, run: str) -> Path:
        """Return a run's task file, or its own configuration if no driver here began it."""
        task = self.tasks / f"{run}.json"
        return task if task.is_file() else self.path.parent.parent / run / CONFIG

    @property
    def page(self) -> Path:
        """The page of its last report."""
        return self.path / PAGE

    def _held(self, name: str) -> dict[str, Any] | None:
        """The content of a file; None if it is not there."""
        file = self.path / name
        return read_object(file, AGAIN) if file.is_file() else None


class Sweeps:
    """All sweeps below a folder of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sweeps"

    def all(self) -> list[SweepFolder]:
        """Every sweep, the latest at the end."""
        paths = sorted(self.root.glob(f"[!.]*/{STATE}"), key=lambda path: path.stat().st_mtime)
        return [SweepFolder(path.parent) for path in paths]

    def find(self, name: str) -> SweepFolder:
        """The sweep called `name`: its name, an unambiguous part of it, or its folder."""
        if (Path(name) / STATE).is_file():
            return SweepFolder(Path(name))
        by_name = {sweep.name: sweep for sweep in self.all()}
        return by_name[full_name(name, by_name, "sweep", f"in {self.root}", "`sage sweep list`")]


def sweep_folder(root: Path, name: str) -> Path:
    """The folder of a sweep, below the folder of runs."""
    return root / "sweeps" / name
