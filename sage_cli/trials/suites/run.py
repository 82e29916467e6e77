"""A suite that runs: the tuning of its arms, its tasks, the sweeps of its parts, its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_cli.models.shipped_base import put_in_place
from sage_cli.progress import Progress
from sage_cli.store.locks import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.trials.executors.build import build_executor
from sage_cli.trials.failures import all_failed, write_failures
from sage_cli.trials.queue import run_tasks
from sage_cli.trials.suites.plan import Overrides, PlannedSuite
from sage_cli.trials.suites.sweeps import prepare_tuned, sweeps_of
from sage_cli.trials.sweep.run import WritePage, run_sweep
from sage_cli.trials.task import DONE, SFT, TaskStates

if TYPE_CHECKING:
    from sage_cli.trials.suites.chapters import SuiteReport


_RETRIES = 1
"""How often a failed task is tried again."""


def run_suite(
    name: str, overrides: Overrides, progress: Progress, write_page: WritePage
) -> SuiteReport:
    """Carry out every task that is not done, and report.

    A task that fails does not affect the others. Raises TrainingError if all tasks failed.
    """
    # reports load what a plan has no use for
    from sage_cli.trials.suites.report import report_of, require_analyses

    with progress.doing(f"planning {name}"):
        plan, searches = prepare_tuned(name, overrides)
    require_analyses(plan)
    for search in searches:
        if not search.tried:
            progress.say(search.title)
            run_sweep(search.config, progress, write_page)
    if searches:
        plan, searches = prepare_tuned(name, overrides, required=True)
    run_plan(plan, progress)
    for task in sweeps_of(plan):
        run_sweep(task.config, progress, write_page)
    return report_of(plan, progress, write_page, searches)


def run_plan(plan: PlannedSuite, progress: Progress) -> None:
    """Carry out the tasks of a plan that are not done, and write why some failed.

    Raises TrainingError if nothing is measured or trained in the end.
    """
    config, folder = plan.config, plan.folder / "tasks"
    require_mirrors(config.tracking)
    executor = build_executor(config.executor, folder=folder, processes=config.rl.processes)
    with writer(plan.folder):
        for part in plan.parts:
            for replicate in part.replicates:
                put_in_place(replicate.initial.run)
        states = TaskStates(plan.folder, plan.tasks)
        failures = run_tasks(plan.tasks, executor, folder, _RETRIES, progress, ended=states.note)
        write_failures(plan.failures, failures)
    if failures and not any(task.state == DONE for task in plan.tasks if task.kind != SFT):
        raise all_failed(map(str, failures.values()), folder)
