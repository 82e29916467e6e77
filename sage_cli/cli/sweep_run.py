"""Run a sweep, plan it, and read, cancel or remove a stored one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from sage_cli.cli.training_run import RlTraining
from sage_cli.config.consent import function_words, service_words, without_consent
from sage_cli.config.describe import evaluation_facts, rl_facts
from sage_cli.config.load import load, options_for
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError, TrainingError
from sage_cli.evaluation.benchmarks import refuse_trained
from sage_cli.models.stages import Described, memory_of
from sage_cli.problems.load import check_rows
from sage_cli.progress import Progress
from sage_cli.settings.presets import read_layer
from sage_cli.settings.sections.sweep import ExecutorSection
from sage_cli.store.files import read_object, write_object
from sage_cli.store.locks import driver
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Runs
from sage_cli.training.rewards import require_plugins
from sage_cli.trials.cost import measuring_cost, seconds_per_step, training_cost
from sage_cli.trials.executors.build import build_executor, local_places
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.queue import all_failed
from sage_cli.trials.search.folder import AGAIN, COMMANDS, CONFIG, OTHER_VERSION, TASKS, SweepFolder
from sage_cli.trials.search.planned_sweep import Sweep, point_config, prepared, shared_config
from sage_cli.trials.search.space import State, StudyTrial
from sage_cli.trials.task import Replicate, Task, left_and_states

if TYPE_CHECKING:
    from sage_cli.reports.document import Report
    from sage_cli.reports.sweep_result import SweepResult, SweepTrial


def reported(sweep: SweepFolder) -> SweepResult:
    """The sweep's report. Raises StoreError while there is none."""
    if (result := sweep.result) is None:
        how = "it is written when the driver ends" if sweep.driven_by else _resume(sweep)
        raise StoreError(f"{sweep.name} has no report yet", how)
    return result


def draw(sweep: SweepFolder, folder: Path | None = None) -> list[Path]:
    """Write Optuna's pictures of the sweep's report; returns the files.

    Raises StoreError if no trial is done.
    """
    from sage_cli.reports.sweep_report import write_pictures

    result = reported(sweep)
    if not result.done:
        raise StoreError(f"no trial of {sweep.name} is done", _resume(sweep))
    return write_pictures(result, folder or sweep.path / "pictures")


def cancel_sweep(sweep: SweepFolder) -> str:
    """Ask the driver to stop; returns a sentence about what was done, or is left to do by hand.

    Raises StoreError if there is nothing to cancel.
    """
    if sweep.driven_by:
        sweep.cancel()
        return (
            f"{sweep.driven_by} was asked to stop driving {sweep.name}: what its tasks have saved "
            f"stays, and {_resume(sweep)}"
        )
    if not sweep.jobs:
        raise StoreError(f"nobody drives {sweep.name}, and no jobs of it are left", _resume(sweep))
    jobs = " ".join(sweep.jobs)
    return (
        f"nobody drives {sweep.name}, and {_jobs_left(sweep)}: "
        f"`scancel {jobs}` ends those that still run; {_resume(sweep)}"
    )


def remove_sweep(sweep: SweepFolder) -> None:
    """Delete the sweep's folder and its study; runs stay. Raises StoreError while it is driven."""
    if sweep.driven_by:
        raise StoreError(
            f"{sweep.name} is driven by {sweep.driven_by}",
            f"`sage sweep cancel {sweep.name}` stops it; remove it then",
        )
    if sweep.jobs:
        raise StoreError(
            _jobs_left(sweep),
            f"end those that run with `scancel {' '.join(sweep.jobs)}`, delete "
            f"{sweep.path / TASKS / 'jobs.json'}, and remove the sweep then",
        )
    sweep.remove()


def settings_of(sweep: SweepFolder) -> SageConfig:
    """Return the settings that a sweep was typed with, without code that they name.

    Raises StoreError if this version of sage knows other ones.
    """
    file = sweep.path / CONFIG
    try:
        return load(stored=without_consent(read_layer(file))).config
    except ConfigurationError as error:
        raise StoreError(
            f"{file} was written by another version of sage, or edited: {error.cause}",
            OTHER_VERSION,
        ) from None


def command_of(sweep: SweepFolder, trial: SweepTrial) -> str:
    """The `sage rl` that leads to the trial's first run, with all digits of its numbers.

    It names the stored configuration of the run if no words make the settings.
    """
    words = options_for(point_config(shared_config(settings_of(sweep)), trial.settings))
    if words is None:
        words = ("--config", str(sweep.path / TASKS / f"{trial.runs[0]}.json"))
    functions = function_words(read_layer(sweep.path / CONFIG))
    return shlex.join(("sage", "rl", *words, *functions))


def write_page(sweep: SweepFolder, root: Path, progress: Progress) -> None:
    """Write the page of a sweep's report beside it, and the command of each trial."""
    from sage_cli.view.page_file import write_page as write_page_file

    trials = enumerate(reported(sweep).trials, 1)
    commands = {number: command_of(sweep, trial) for number, trial in trials if trial.runs}
    write_object(sweep.path / COMMANDS, commands)
    with progress.doing("writing the page"):
        write_page_file(root, sweep.page, "sweep", sweep.name)


def _jobs_left(sweep: SweepFolder) -> str:
    count = len(sweep.jobs)
    jobs = "1 job" if count == 1 else f"{count} jobs"
    return f"{jobs} of {sweep.name} {'is' if count == 1 else 'are'} left with the cluster"


def _resume(sweep: SweepFolder) -> str:
    file = sweep.path / CONFIG
    services = service_words(read_object(file, AGAIN)) if file.is_file() else []
    return f"`{shlex.join(['sage', 'sweep', '--config', str(file), *services])}` resumes it"


LEARNING_WORKERS = 4
"""Trainings at once on a cluster if the sampler learns and executor.workers is not set."""


def run_sweep(config: SageConfig, progress: Progress, *, detach: bool = False) -> Report:
    """Run what the sweep still lacks; failures are stored with their class and tried again.

    With `detach` the tasks are left to an executor that outlives this process, and stored results
    are reported. Raises TrainingError if no trial has a result.
    """
    from sage_cli.trials.search.driver import Driver
    from sage_cli.trials.search.outcome import lost, outcome  # a plan draws and counts nothing

    require_mirrors(config.tracking)
    search = prepared(config)
    folder = search.folder
    refuse_trained(search.benchmarks, config.data, "sweep.benchmark")
    require_plugins(search.shared)
    executor = _executor(search, detach=detach)
    with driver(folder.path, folder.name):
        folder.require_same(search.determinants)
        folder.keep_config(config)
        folder.forget_cancel()
        study = search.open_study()
        progress.say(escape(search.announcement))
        drive = Driver(search, study, executor, progress, lost(study, search))
        drive.run(detach=detach)
        report = outcome(search, study, drive.under_way).write(folder.path)
        trials = study.trials()
    # nobody drives it any more, which the page says as long as it is kept
    write_page(folder, config.run.root, progress)
    if (why := drive.stopped_by) is not None:
        raise TrainingError(
            f"{config.sweep.stop_after} trials in a row failed in one way, so the sweep was "
            f"stopped; the last: {why}",
            f"remove the cause (logs: {folder.tasks}) and type the same command again: these "
            "trials count as not tried; sweep.stop_after=null continues regardless",
        )
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


def plan_sweep(config: SageConfig, gpu: int | None = None) -> list[Described]:
    """The stages of a sweep: its initial policy, what its trials share, and every task.

    `gpu` is the GB of a GPU, against which memory of the shared settings is laid.
    """
    search = prepared(config)
    config, shared = search.shared, search.shared
    check_rows(config.data)
    tasks = search.known_tasks()
    left, states = left_and_states(tasks)
    done = len(tasks) - len(left)
    runs = search.total * config.sweep.seeds
    if not tasks:  # a sampler chooses the points: each costs what the shared settings do
        left = [search.tasks.training(Replicate("trial", 0, shared))] * runs
    facts: dict[str, Any] = {
        "folder": str(search.folder.path),
        "sampler": search.sampler,
        "trials": search.total,
        "runs": f"{runs}, {done} of them done",
        "objectives": " and ".join(config.sweep.objective),
        **_cost(shared, left, _section(search).workers or len(left)),
        **evaluation_facts(shared),
        **states,
    }
    trial = RlTraining.of(shared, measure=gpu is not None)  # whose memory is asked for
    return [
        trial.start.describe(),
        Described("RL, shared by all trials", rl_facts(config)),
        Described("sweep", facts),
        *memory_of(trial.stages, gpu),
    ]


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


def _cost(config: SageConfig, left: list[Task], places: int) -> dict[str, str]:
    """The cost of the tasks that are left, and their time by the latest runs of their kind."""
    training = [training_cost(task) for task in left]
    steps = sum(cost.steps for cost in training)
    sampled = sum(cost.completions for cost in training)
    measured = sum(measuring_cost(task).completions for task in left)
    facts = {
        "steps": f"{steps:,} to do",
        "completions": f"{sampled:,} in training, {measured:,} in measurement",
    }
    per_step = seconds_per_step(Runs(config.run.root), config)
    if per_step is None:
        return {**facts, "time": "unknown: there is no finished run of this kind to go by"}
    seconds, runs = steps * per_step[0], per_step[1]
    wall_s = seconds / max(1, min(places, len(left)))
    gpus = left[0].resources.gpus if left else 0
    hours = {"GPU hours": f"{seconds * gpus / 3600:.2g}"} if gpus else {}
    return {
        **facts,
        "time": f"{wall_s / 60:.1f} minutes of training by {places} at once, going by the "
        f"latest {runs} runs of this kind; measuring comes on top",
        **hours,
    }
