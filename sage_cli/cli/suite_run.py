"""Plan and run a suite: the tasks of its trials, and the sweeps of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, cast

from typing_extensions import TypedDict

from sage_cli.cli.suite_tuning import UNCHOSEN, planned_tuned, trainings
from sage_cli.models.folders import pinned_revision
from sage_cli.problems.load import check_rows
from sage_cli.progress import Progress
from sage_cli.settings.ks import capped_ks
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.locks import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.trials.executors.executor import Resources, build_executor
from sage_cli.trials.queue import all_failed, run_tasks, write_failures
from sage_cli.trials.search.planned_sweep import shared_config, sweep_folder, sweep_name
from sage_cli.trials.search.read_space import guide_of, read_space
from sage_cli.trials.suites.trials import Overrides, Part, PlannedSuite
from sage_cli.trials.task import (
    DONE,
    TO_DO,
    Cost,
    Task,
    TaskState,
    TaskStates,
    cost,
    cost_left,
    cost_of,
)

if TYPE_CHECKING:
    from sage_cli.trials.suites.report import SuiteReport

RETRIES = 1
FAILURES = "failures.json"


class TaskJson(TaskState):
    """A task: its command, the task that it needs, its state, and the suites that want it.

    The cost of a sweep's trials is shown by `sage sweep --dry-run`.
    """

    suites: list[str]
    cost: NotRequired[Cost]


class SuitePlan(TypedDict):
    """A suite's tasks in the order in which they can be done, their cost, and notes on both."""

    suite: str
    title: str
    folder: str
    tasks: list[TaskJson]
    cost: Cost
    left: Cost
    chosen: list[str]
    notes: list[str]


@dataclass(eq=False, kw_only=True)
class SweepTask(Task):
    """A suite's sweep, which has an executor and tasks of its own; `folder` holds its memory."""

    folder: Path

    @property
    def state(self) -> str:
        """Return how many of a suite's trials are done; nothing is read before it was started."""
        if not self.folder.is_dir():
            return TO_DO
        from sage_cli.trials.search.planned_sweep import prepared  # imports Optuna

        states = [task.state for task in prepared(self.config).known_tasks()]
        done = states.count(DONE)
        return DONE if done == len(states) else f"{done}/{len(states)} runs done"


def run_suite(name: str, overrides: Overrides, progress: Progress) -> SuiteReport:
    """Carry out every task that is not done, and report.

    A task that fails does not affect the others. Raises TrainingError if all tasks failed.
    """
    # reports load what a plan has no use for, and sweeps Optuna
    from sage_cli.cli.suite_report import report_of, require_analyses
    from sage_cli.cli.sweep_run import run_sweep

    with progress.doing(f"planning {name}"):
        plan, searches = planned_tuned(name, overrides)
    require_analyses(plan)
    for search in searches:
        if not search.tried:
            progress.say(search.title)
            run_sweep(search.config, progress)
    if searches:
        plan, searches = planned_tuned(name, overrides, required=True)
    carry_out(plan, progress)
    for task in sweeps_of(plan):
        run_sweep(task.config, progress)
    return report_of(plan, progress, searches)


def carry_out(plan: PlannedSuite, progress: Progress) -> None:
    """Carry out the tasks of a plan that are not done, and write why some failed.

    Raises TrainingError if nothing is measured or trained in the end.
    """
    config, folder = plan.config, plan.folder / "tasks"
    require_mirrors(config.tracking)
    executor = build_executor(config.executor, folder=folder, processes=config.rl.processes)
    with writer(plan.folder):
        states = TaskStates(plan.folder, plan.tasks)
        failures = run_tasks(plan.tasks, executor, folder, RETRIES, progress, ended=states.note)
        write_failures(plan.folder / FAILURES, failures)
    if failures and not any(task.state == DONE for task in plan.tasks if task.needs):
        raise all_failed(map(str, failures.values()), folder)


def plan_suite(name: str, overrides: Overrides) -> SuitePlan:
    """Return the tasks of `run_suite` with their states and costs; all rows of data are read."""
    plan, searches = planned_tuned(name, overrides)
    configs = (replicate.config for part in plan.parts for replicate in part.replicates)
    for config in {c.model_dump_json(include={"data", "sft"}): c for c in configs}.values():
        check_rows(config.data)
        if config.sft.enabled:
            check_rows(config.data, config.sft)
    tasks: list[TaskJson] = [{**_shown(task), "cost": cost_of(task)} for task in plan.tasks]
    states = [task["state"] for task in tasks]
    left = [task for task, state in zip(plan.tasks, states, strict=True) if state != DONE]
    sweeps = sweeps_of(plan)
    trials = [(sweep.state, trainings(sweep)) for sweep in (*searches, *sweeps)]
    left += [trial for state, alike in trials if state != DONE for trial in alike]
    return {
        "suite": plan.suite.name,
        "title": plan.suite.title,
        "folder": str(plan.folder),
        "tasks": [*map(_shown, searches), *tasks, *map(_shown, sweeps)],
        "cost": cost([*plan.tasks, *(trial for _, alike in trials for trial in alike)]),
        "left": cost_left(left),
        "chosen": [sentence for part in plan.parts for sentence in part.suite.chosen],
        "notes": _notes(plan) + ([UNCHOSEN] if any(not s.tried for s in searches) else []),
    }


def sweeps_of(plan: PlannedSuite) -> list[SweepTask]:
    """The sweeps of all parts, each over as many seeds as the suite says."""
    return [_sweep_task(part, part.suite.sweep, plan) for part in plan.parts if part.suite.sweep]


def _sweep_task(part: Part, space: str, plan: PlannedSuite) -> SweepTask:
    suite, overrides = part.suite, plan.overrides
    seeds = overrides.seeds or suite.seeds
    sections = {"guide": {"name": guide_of(space)}, "sweep": {"space": space, "seeds": seeds}}
    presets = overrides.presets_with(suite.preset)
    config = overrides.config(suite.preset, sections)
    folder = sweep_folder(
        config.run.root, sweep_name(shared_config(config), read_space(space, config).keys)
    )
    return SweepTask(
        folder.name, suite.title, ("sweep", "--space", space), config, bool, Resources(),
        kind="sweep", folder=folder, wanted_by=[suite.name],
        options=(
            *(word for preset in presets for word in ("--preset", preset)),
            "--seeds", str(seeds),
            *(word for setting in overrides.sets for word in ("--set", setting)),
        ),
    )  # fmt: skip


def _shown(task: Task) -> TaskJson:
    return cast(TaskJson, {**task.as_json(), "suites": task.wanted_by})


def _notes(plan: PlannedSuite) -> list[str]:
    notes = ["measurements that share samples are counted as if each sampled its own"]
    models: dict[str, str | None] = {}
    for part in plan.parts:
        notes += [
            f"{part.suite.name}: {label} is {other} under these settings, and is run once"
            for label, other in part.same.items()
        ]
        for replicate in part.replicates:
            model = replicate.config.model
            if isinstance(model, PretrainedModel):
                models[model.path] = pinned_revision(model.path, model.revision)
        if not part.suite.measured or not part.trials:
            continue
        samples = part.trials[0].config.evaluation.samples
        if capped_ks(part.suite.k, samples) != part.suite.k:
            notes.append(
                f"{part.suite.name}: k ends at {samples}, not as in the suite's {part.suite.k}: "
                f"evaluation.samples is {samples}"
            )
    unknown = [path for path, commit in models.items() if not commit and not Path(path).is_dir()]
    if unknown:
        notes.append(
            f"the Hub wasn't asked for {', '.join(unknown)}, which its cache lacks: runs that grow "
            "from there will have other ids than these"
        )
    return notes + [
        f"{part.suite.name}: {label}'s own control is {method.control}"
        for part in plan.parts
        for label, method in part.suite.methods.items()
        if method.control
    ]
