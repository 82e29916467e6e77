"""`sage sweep`: trials of a search space, trained and measured on validation problems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from sage_cli.commands.train.rl import RlTraining
from sage_cli.commands.trials.sweeps import write_page
from sage_cli.config.describe import evaluation_facts, rl_facts
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec, RlSpec
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.evaluation.benchmarks import refuse_trained
from sage_cli.planning.dry_run import Described, memory_of
from sage_cli.planning.stages import rl_hours
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.settings.sections.executor import ExecutorSection
from sage_cli.store.lock import driver
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.runs.run import Runs
from sage_cli.training.rewards.load import require_plugins
from sage_cli.trials.cost import measuring_cost, seconds_per_step, training_cost
from sage_cli.trials.executors.build import build_executor, local_places
from sage_cli.trials.executors.executor import Executor
from sage_cli.trials.queue import all_failed
from sage_cli.trials.search.driver import Driver
from sage_cli.trials.search.outcome import lost, mirror_report, outcome
from sage_cli.trials.search.space import State, StudyTrial
from sage_cli.trials.search.sweep import Sweep, prepared
from sage_cli.trials.task import Replicate, Task, left_and_states

LEARNING_WORKERS = 4
"""Trainings at once on a cluster if the sampler learns and executor.workers is not set."""


def sweep(config: SageConfig, progress: Progress, *, detach: bool = False) -> Report:
    """Run what the sweep still lacks; failures are stored with their class and tried again.

    With `detach` the tasks are left to an executor that outlives this process, and stored results
    are reported. Raises TrainingError if no trial has a result.
    """
    require_mirrors(config.tracking)
    search = prepared(config)
    folder = search.folder
    refuse_trained(search.benchmarks, config.data, "sweep.benchmark")
    require_plugins(RlSpec.of(search.shared))
    executor = _executor(search, detach=detach)
    with ExitStack() as held:
        held.enter_context(driver(folder.path, folder.name))
        folder.require_same(search.determinants)
        folder.require_storage(config.sweep.storage)
        folder.keep_config(config)
        folder.forget_cancel()
        with progress.doing("asking who drives the study"):
            study = held.enter_context(closing(search.open_study()))
        if study.before is not None:
            progress.say(
                f"the study was driven from {study.before.folder} on {study.before.host} before: "
                "its trials that are not in this folder of runs are trained again"
            )
        drive = Driver(search, study, executor, progress, lost(study, search))
        drive.run(detach=detach)
        report = outcome(search, study, drive.under_way).write(folder.path)
        mirror_report(report, search.facts(study), config.tracking)
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
    infeasible = [one for one in trials if one.state is State.INFEASIBLE]
    measured = sum(one.state in (State.DONE, State.PRUNED) for one in trials)
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
    if trials and all(one.state in (State.FAILED, State.INFEASIBLE) for one in trials):
        reasons = (f"{one.attrs.get('failure')}: {one.attrs.get('reason')}" for one in trials)
        raise all_failed(reasons, search.folder.tasks)


def dry_run(config: SageConfig, gpu: str | None = None) -> list[Described]:
    """The stages of a sweep: its initial policy, what its trials share, and every task.

    `gpu` names a GPU, against which memory of the shared settings is laid.
    """
    search = prepared(config)
    recipe, shared = RlSpec.of(search.shared), search.shared
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
        **evaluation_facts(EvaluationSpec.of(shared)),
        **states,
    }
    trial = RlTraining.of(shared, measure=True)
    hours = rl_hours(recipe)
    return [
        trial.start.describe(),
        Described("RL, shared by all trials", {**rl_facts(recipe), **hours}),
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
    found = {
        "steps": f"{steps:,} to do",
        "completions": f"{sampled:,} in training, {measured:,} in measurement",
    }
    per_step = seconds_per_step(Runs(config.run.root), config)
    if per_step is None:
        return {**found, "time": "unknown: there is no finished run of this kind to go by"}
    seconds, runs = steps * per_step[0], per_step[1]
    wall_s = seconds / max(1, min(places, len(left)))
    gpus = left[0].resources.gpus if left else 0
    hours = {"GPU hours": f"{seconds * gpus / 3600:.2g}"} if gpus else {}
    return {
        **found,
        "time": f"{wall_s / 60:.1f} minutes of training by {places} at once, going by the "
        f"latest {runs} runs of this kind; measuring comes on top",
        **hours,
    }
