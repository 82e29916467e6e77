"""A suite before anything runs: its tasks, where its report will be, what of it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError
from sage_cli.executors.build import local_places, task_resources
from sage_cli.policies.state import state
from sage_cli.store.identity import identity_of
from sage_cli.suite.arms import Arm, Overrides, arms_of
from sage_cli.suite.cost import Cost, cost, cost_left, cost_of
from sage_cli.suite.declaration import Suite
from sage_cli.suite.read import with_included
from sage_cli.suite.stored import StoredMeasurements
from sage_cli.suite.tasks import SuiteTask, Tasks

DONE = "done"


class TaskJson(TypedDict):
    """A task: its command, the task that it needs, its state, and the suites that want it.

    What a sweep's cells cost is said by `sage sweep --dry-run`.
    """

    name: str
    title: str
    command: str
    needs: str | None
    state: str
    suites: list[str]
    cost: NotRequired[Cost]


class PlanJson(TypedDict):
    """A suite's tasks in the order in which they can be done; what all and the rest cost."""

    suite: str
    title: str
    folder: str
    tasks: list[TaskJson]
    cost: Cost
    left: Cost
    chosen: list[str]


@dataclass(frozen=True)
class Part:
    """One of the suites that are done together, and its arms."""

    suite: Suite
    arms: Sequence[Arm]

    @cached_property
    def by_label(self) -> dict[str, list[Arm]]:
        """The arms of each method."""
        found: dict[str, list[Arm]] = {}
        for arm in self.arms:
            found.setdefault(arm.label, []).append(arm)
        return found

    @cached_property
    def same(self) -> dict[str, str]:
        """Label -> an earlier method that leads to the same policies under these settings."""
        same: dict[str, str] = {}
        seen: dict[tuple[str, ...], str] = {}
        for label, arms in self.by_label.items():
            other = seen.setdefault(tuple(arm.policy.label for arm in arms), label)
            if other != label:
                same[label] = other
        return same


@dataclass(frozen=True, eq=False)
class Plan:
    """What a suite, with all that it includes, has to have done; `parts` ends with itself."""

    overrides: Overrides
    config: SageConfig
    parts: Sequence[Part]
    tasks: Sequence[SuiteTask]
    stored: StoredMeasurements

    @property
    def suite(self) -> Suite:
        """The one that was named."""
        return self.parts[-1].suite

    @cached_property
    def folder(self) -> Path:
        """Where its configurations, logs and report are; told by all that decides its results."""
        tasks = sorted(f"{task.kind} {task.name}" for task in self.tasks)
        sweeps = [part.suite.sweep for part in self.parts if part.suite.sweep]
        identity = identity_of("suite", {"tasks": tasks, "sweeps": sweeps})
        return self.config.run.root / "suites" / f"{self.suite.name}-{identity[:8]}"

    def state(self, task: SuiteTask) -> str:
        """`done`, what is there of a task, or why that can't be told."""
        try:
            if task.done():
                return DONE
        except SageError as error:
            return f"refused: {error.cause}"
        if task.run is not None and task.run.begun:
            found = state(task.run)
            return "trained, to be measured" if found == "finished" else found
        return "to do"

    def as_json(self) -> PlanJson:
        """The plan as plain values."""
        states = {task.name: self.state(task) for task in self.tasks}
        whole = cost(self.tasks)
        left = cost_left(task for task in self.tasks if states[task.name] != DONE)
        return {
            "suite": self.suite.name,
            "title": self.suite.title,
            "folder": str(self.folder),
            "tasks": [
                {
                    "name": task.name,
                    "title": task.title,
                    "command": task.typed,
                    "needs": task.needs.name if task.needs else None,
                    "state": states[task.name],
                    "suites": task.suites,
                    "cost": cost_of(task),
                }
                for task in self.tasks
            ],
            "cost": whole,
            "left": left,
            "chosen": [one for part in self.parts for one in part.suite.chosen],
        }


def planned(name: str, overrides: Overrides) -> Plan:
    """The plan of the suite called `name` under these overrides; nothing is loaded or written."""
    config = overrides.config()
    parts = [Part(suite, arms_of(suite, overrides)) for suite in with_included(name)]
    processes, stored = config.rl.processes, StoredMeasurements()
    share = task_resources(config.executor, processes)
    local = config.executor.name == "local"
    among = local_places(config.executor, processes) if local else 1
    alone = replace(share, threads=share.threads * among)
    typed = (overrides.flags or {}).get("run", {}).get("root")
    tasks = Tasks(stored, share, alone, ("--runs", str(typed)) if typed else ())
    for part in parts:
        tasks.add(part.suite, part.arms)
    return Plan(overrides, config, parts, list(tasks.tasks.values()), stored)
