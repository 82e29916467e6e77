"""Run a sweep, plan it, and read a stored one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from sage_cli.cli.training_run import RlTraining, with_model_of
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.evaluation.benchmarks import refuse_trained
from sage_cli.models.folders import is_adapter
from sage_cli.models.planned import Described, evaluation_facts, memory_of, rl_facts
from sage_cli.models.policy import named_policy
from sage_cli.problems.load import benchmark_names, is_here
from sage_cli.progress import Progress
from sage_cli.settings.runs import ExecutorSection
from sage_cli.store.locks import driver
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Runs
from sage_cli.training.checks import RlChecks
from sage_cli.trials.executors.executor import Executor, build_executor, local_places
from sage_cli.trials.queue import all_failed
from sage_cli.trials.search.planned_sweep import Sweep, prepared
from sage_cli.trials.search.space import State, StudyTrial
from sage_cli.trials.task import Replicate, cost_left, left_and_states

if TYPE_CHECKING:
    from sage_cli.reports.document import Report


LEARNING_WORKERS = 4
"""Trainings at once on a cluster if the sampler learns and executor.workers is not set."""


def run_sweep(config: SageConfig, progress: Progress, *, detach: bool = False) -> Report:
    """Run what the sweep still lacks; failures are stored with their class and tried again.

    With `detach` the tasks are left to an executor that outlives this process, and stored results
    are reported. Raises TrainingError if no trial has a result.
    """
    # a plan draws and counts nothing
    from sage_cli.trials.search.driver import Driver, lost, outcome
    from sage_cli.view.page_file import write_page

    require_mirrors(config.tracking)
    search = prepared(config)
    folder = search.folder
    check_sweep(search)
    executor = _executor(search, detach=detach)
    with driver(folder.path, folder.name):
        folder.require_same(search.determinants)
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


def started_from(init: str, config: SageConfig) -> SageConfig:
    """Return `config` with the model called `init` as every trial's initial policy, without SFT.

    Raises ConfigurationError for an adapter, which the configuration of a trial can't name.
    """
    runs = Runs(config.run.root)
    policy = named_policy(init, runs, config.model)
    policy.require_weights()
    if is_adapter(Path(policy.path)):
        raise ConfigurationError(
            f"--init {init} is a LoRA adapter, and the trials of a sweep start from whole models",
            f"write it as one with `sage export {init} FOLDER`, and give --init FOLDER",
        )
    started = with_model_of(policy.path, config)
    return changed(started, {"model.path": policy.path, "sft.enabled": False})


def check_sweep(search: Sweep, *, offline: bool = False) -> str:
    """Raise what refuses a sweep, or every trial of it, before a model is loaded.

    Returns a note on rows that only the Hub has, which `offline` leaves unread.
    """
    checks, data = RlChecks(search.shared), search.config.data
    note = checks.check(offline=offline)
    names = benchmark_names(search.config.sweep.benchmark)
    if not offline or (checks.is_here and all(is_here(name, data) for name in names)):
        refuse_trained(search.benchmarks, data, "sweep.benchmark")
    return note


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
    shared_facts = rl_facts(config)
    shared_facts["problems"] += check_sweep(search, offline=True)
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
        "runs": f"{runs} ({done} finished)",
        "objectives": " and ".join(config.sweep.objective),
        "left": cost_left(left).describe(),
        **evaluation_facts(shared),
        **states,
    }
    trial = RlTraining.of(shared, measure=gpu is not None)  # whose memory is asked for
    return [
        trial.start.describe(),
        Described("RL, shared by all trials", shared_facts),
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
