"""A suite with all that it includes: its trials, their tasks, and where its report will be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.store.identity import identity_of
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.overrides import Overrides, trials_of
from sage_cli.trials.suites.read import with_included
from sage_cli.trials.task import Replicate, StoredMeasurements, Task, TaskList, Trial


@dataclass(frozen=True)
class Part:
    """One of the suites that are done together, and its trials."""

    suite: Suite
    trials: Sequence[Trial]

    @property
    def replicates(self) -> list[Replicate]:
        """The replicates of all trials."""
        return [one for trial in self.trials for one in trial.replicates]

    @cached_property
    def same(self) -> Mapping[str, str]:
        """Label -> an earlier method that leads to the same policies under these settings."""
        same: dict[str, str] = {}
        seen: dict[tuple[str, ...], str] = {}
        for trial in self.trials:
            policies = tuple(one.policy.label for one in trial.replicates)
            other = seen.setdefault(policies, trial.label)
            if other != trial.label:
                same[trial.label] = other
        return same

    def want(self, tasks: TaskList) -> None:
        """Add the tasks of the suite to the list, each after what it needs."""
        for trial in self.trials:
            for one in trial.replicates:
                for task in self._wanted(trial, one, tasks):
                    if self.suite.name not in task.wanted_by:
                        task.wanted_by.append(self.suite.name)

    def _wanted(self, trial: Trial, one: Replicate, tasks: TaskList) -> list[Task]:
        suite, initial = self.suite, tasks.initial(one)
        found = [initial] if initial is not None else []
        if not trial.is_initial:
            found.append(tasks.training(one, measure=suite.measured))
        if suite.measured:
            found.append(tasks.measurement(one))
        if trial.is_initial:
            return found
        if suite.checkpoints:
            found.append(tasks.checkpoints(one))
        if suite.measured and one.config.guide.name != "none" and not one.seed:
            found.append(tasks.token_report(one, trial.label))
        return found


@dataclass(frozen=True, eq=False)
class PlannedSuite:
    """The suites that are done together, the named one last, and their tasks in order."""

    overrides: Overrides
    config: SageConfig
    parts: Sequence[Part]
    tasks: Sequence[Task]
    stored: StoredMeasurements

    @property
    def suite(self) -> Suite:
        """The suite that was named."""
        return self.parts[-1].suite

    @cached_property
    def folder(self) -> Path:
        """Return the suite's folder, named by a hash of all that decides its results."""
        tasks = sorted(f"{task.kind} {task.name}" for task in self.tasks)
        sweeps = [part.suite.sweep for part in self.parts if part.suite.sweep]
        identity = identity_of("suite", {"tasks": tasks, "sweeps": sweeps})
        return self.config.run.root / "suites" / f"{self.suite.name}-{identity[:8]}"


def planned(name: str, overrides: Overrides) -> PlannedSuite:
    """The suite called `name` under these overrides; nothing is loaded or written."""
    suites = [suite.only(overrides.only) for suite in with_included(name)]
    config, stored = overrides.config(), StoredMeasurements()
    parts = [Part(suite, trials_of(suite, overrides)) for suite in suites]
    root = (overrides.flags or {}).get("run", {}).get("root")
    tasks = TaskList(config, stored, ("--runs", str(root)) if root else ())
    for part in parts:
        part.want(tasks)
    return PlannedSuite(overrides, config, parts, list(tasks.tasks.values()), stored)
