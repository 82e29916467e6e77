"""A sweep that runs: its executor, its driver, and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.progress import Progress
from sage_cli.settings.executor import ExecutorSection
from sage_cli.store.locks import driver
from sage_cli.store.mirrors import require_mirrors
from sage_cli.trials.executors.build import build_executor, local_places
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.failures import all_failed
from sage_cli.trials.sweep.plan import Sweep, check_sweep, prepare_sweep
from sage_cli.trials.sweep.study_trial import State, StudyTrial

if TYPE_CHECKING:
    from sage_cli.reports.document import Report


LEARNING_WORKERS = 4
"""Trainings at once on a cluster if the sampler learns and executor.workers is not set."""


WritePage = Callable[[Path, Path, str, str], object]
"""Writes a page for a browser: (folder of runs, page, `sweep` or `suite`, name).

Commands give it, since what makes pages is a layer above this one."""


def run_sweep(
    config: SageConfig, progress: Progress, write_page: WritePage, *, detach: bool = False
) -> Report:
    """Run what the sweep still lacks; failures are stored with their class and tried again.

    With `detach` the tasks are left to an executor that outlives this process, and stored results
    are reported. Raises TrainingError if no trial has a result.
    """
    # a plan draws and counts nothing
    from sage_cli.trials.sweep.driver import Driver
    from sage_cli.trials.sweep.outcome import lost, outcome

    require_mirrors(config.tracking)
    search = prepare_sweep(config)
    folder = search.folder
    check_sweep(search)
    executor = _executor(search, detach=detach)
    with driver(folder.path, folder.name):
        search.check_same()
        folder.keep_config(config)
        study = search.open_study()
        progress.say(escape(search.announcement))
        drive = Driver(search, study, executor, progress, lost(study, search))
        drive.run(detach=detach)
        report = outcome(search, study, drive.under_way).write(folder.path)
        trials = study.trials()
    with progress.doing("writing the page"):  # which says that nobody drives it any more
        write_page(config.run.root, folder.page, "sweep", folder.name)
    _require_results(search, trials)
    return report


def _require_results(search: Sweep, trials: Sequence[StudyTrial]) -> None:
    """Raise TrainingError if every trial failed, or as many were infeasible as may be."""
    infeasible = [trial for trial in trials if trial.state is State.INFEASIBLE]
    measured = sum(trial.state in (State.DONE, State.PRUNED) for trial in trials)
    ended = f"{len(infeasible)} trials diverged, or ran out of memory because of their settings"
    if trials and len(infeasible) == len(trials):
        raise TrainingError(
            f"{ended}, and no other was measured",
            f"narrow the space, or change what all trials share (logs: {search.folder.tasks}); "
            "the same command does not train these points again",
        )
    if measured < search.total and len(infeasible) >= search.settings.infeasible_limit:
        raise TrainingError(
            f"{ended}, as many as the sweep may have; {measured} of {search.total} were measured",
            "narrow the space, or raise sweep.max_infeasible and type the same command again",
        )
    if trials and all(trial.state in (State.FAILED, State.INFEASIBLE) for trial in trials):
        reasons = (f"{trial.attrs.get('failure')}: {trial.attrs.get('reason')}" for trial in trials)
        raise all_failed(reasons, search.folder.tasks)


def _executor(search: Sweep, *, detach: bool) -> Executor:
    """The executor of the tasks; with `detach` one that outlives this process is required."""
    config = search.config
    executor = build_executor(
        _section(search), folder=search.folder.path, processes=config.rl.processes
    )
    if detach and not executor.outlives:
        raise ConfigurationError(
            f"--detach: tasks of the executor '{config.executor.name}' end with this command",
            "leave out --detach, or use --executor slurm",
        )
    return executor


def _section(search: Sweep) -> ExecutorSection:
    """Return where tasks run and how many at once; None leaves the number to the cluster.

    A sampler that learns is not asked for all trials at once.
    """
    section = search.config.executor
    if section.name == "local":
        workers: int | None = local_places(section, search.config.rl.processes)
    else:
        workers = section.workers or (None if search.sampler == "grid" else LEARNING_WORKERS)
    return section.model_copy(update={"workers": workers})
