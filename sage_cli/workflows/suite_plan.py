"""`sage suite plan`: every task of a suite as a command, its sweeps among them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sage_cli.config.ks import capped_ks
from sage_cli.config.model import PretrainedModel
from sage_cli.config.schema import SageConfig
from sage_cli.errors import StoreError
from sage_cli.models.folders import pinned_revision
from sage_cli.progress import Progress
from sage_cli.suite.arms import Overrides
from sage_cli.suite.declaration import Suite
from sage_cli.suite.plan import DONE, Plan, PlanJson, TaskJson, planned
from sage_cli.sweep.read import guide_of, read_space
from sage_cli.sweep.shared import shared_config, sweep_folder, sweep_name

if TYPE_CHECKING:
    from sage_cli.reports.document import Document


class SuitePlan(PlanJson):
    """A suite's plan, its sweeps among the tasks, and what a reader should know of its numbers."""

    notes: list[str]


def plan_suite(name: str, overrides: Overrides) -> SuitePlan:
    """Tasks, costs, what was chosen, as plain values; nothing is loaded or written."""
    plan = planned(name, overrides)
    found = plan.as_json()
    found["tasks"] += [one.as_json() for one in sweeps_of(plan)]
    return {**found, "notes": _notes(plan)}


def _notes(plan: Plan) -> list[str]:
    """What a reader of the plan should know of its names and numbers."""
    notes = ["measurements that share samples are counted as if each drew its own"]
    notes += [
        f"{part.suite.name}: {label} is {other} under these settings, and is run once"
        for part in plan.parts
        for label, other in part.same.items()
    ]
    notes += [
        f"{part.suite.name}: k ends at {arm.config.evaluation.samples}, not as in the suite's "
        f"{part.suite.k}: evaluation.samples is {arm.config.evaluation.samples}"
        for part in plan.parts
        for arm in part.arms[:1]
        if part.suite.measured
        and capped_ks(part.suite.k, arm.config.evaluation.samples) != part.suite.k
    ]
    commits = {
        arm.config.model.path: pinned_revision(arm.config.model.path, arm.config.model.revision)
        for part in plan.parts
        for arm in part.arms
        if isinstance(arm.config.model, PretrainedModel)
    }
    unknown = [
        path for path, commit in commits.items() if commit is None and not Path(path).is_dir()
    ]
    if unknown:
        notes.append(
            f"the Hub wasn't asked for {', '.join(unknown)}, which its cache lacks: runs that grow "
            "from there will have other ids than these"
        )
    return notes


@dataclass(frozen=True, eq=False)
class SweepTask:
    """A suite's sweep, as one more of its tasks."""

    suite: Suite
    config: SageConfig
    options: tuple[str, ...]

    @cached_property
    def folder(self) -> Path:
        """Where the sweep's memory is."""
        shared, space = shared_config(self.config), read_space(self.config.sweep.space, self.config)
        return sweep_folder(self.config.run.root, sweep_name(shared, space.keys))

    @cached_property
    def state(self) -> str:
        """How many of its trainings are done; nothing is read where it hasn't begun."""
        if not self.folder.is_dir():
            return "to do"
        from sage_cli.sweep.prepared import prepared  # with Optuna, and its database's library

        it = prepared(self.config)
        trainings = [
            it.cells.training(cell, seed) for cell in it.space.cells() for seed in it.first_seeds
        ]
        done = sum(it.cells.trained(one) is not None for one in trainings)
        return DONE if done == len(trainings) else f"{done} of {len(trainings)} trainings done"

    def run(self, progress: Progress) -> None:
        """`sage sweep` itself, which has its cells done by the same executor."""
        from sage_cli.workflows.sweep import sweep

        sweep(self.config, progress)

    def document(self) -> Document:
        """What it has found, as its driver reported it last; else why there is nothing."""
        from sage_cli.reports.document import Document  # with numpy, which a plan doesn't need
        from sage_cli.reports.provenance import Provenance
        from sage_cli.reports.sweeps.document import document_of
        from sage_cli.sweep.stored import StoredSweep

        try:
            result = StoredSweep(self.folder).result
        except StoreError as error:
            why = error.cause
        else:
            if result is not None:
                return document_of(result, Provenance())
            why = "the sweep hasn't come to its end yet"
        return Document("sweep", "Sweep", {}, notes=(why,))

    def as_json(self) -> TaskJson:
        """As the plan has its other tasks; its cells are those of `sage sweep --dry-run`."""
        words = ("sage", "sweep", "--space", self.config.sweep.space, *self.options)
        return {
            "name": self.folder.name,
            "title": self.suite.title,
            "command": shlex.join(words),
            "needs": None,
            "state": self.state,
            "suites": [self.suite.name],
        }


def sweeps_of(plan: Plan) -> list[SweepTask]:
    """The sweeps of all parts, each over as many seeds as the suite says."""
    found = []
    for part in plan.parts:
        space = part.suite.sweep
        if space is None:
            continue
        overrides, seeds = plan.overrides, plan.overrides.seeds or part.suite.seeds
        sections = {"guide": {"name": guide_of(space)}, "sweep": {"space": space, "seeds": seeds}}
        presets = [
            word for one in overrides.presets_with(part.suite.preset) for word in ("--preset", one)
        ]
        sets = [word for one in overrides.sets for word in ("--set", one)]
        options = (*presets, "--seeds", str(seeds), *sets)
        config = overrides.config(part.suite.preset, sections)
        found.append(SweepTask(part.suite, config, options))
    return found
