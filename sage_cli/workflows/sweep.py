"""`sage sweep`: cells of a search space become runs, measured on development problems."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from sage_cli.config.executor import ExecutorSection
from sage_cli.config.in_words import Stage, evaluation_facts, rl_facts
from sage_cli.config.recipe import EvaluationRecipe, RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import batch_of
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.evaluation.benchmarks import refuse_trained
from sage_cli.executors.build import build_executor, local_places, task_resources
from sage_cli.executors.executor import Executor
from sage_cli.planning.cards import card
from sage_cli.planning.stages import memory_stages, rl_hours
from sage_cli.policies.state import state
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.store.lock import driver
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Runs
from sage_cli.sweep.cells import Training, in_words
from sage_cli.sweep.driver import Driver
from sage_cli.sweep.duration import duration, seconds_per_step
from sage_cli.sweep.mirrored import mirror_report
from sage_cli.sweep.outcome import lost, outcome
from sage_cli.sweep.prepared import Sweep, prepared
from sage_cli.sweep.proposal import State
from sage_cli.sweep.sweep_progress import SweepProgress
from sage_cli.sweep.works import TrialTasks
from sage_cli.training.plugins import require_plugins
from sage_cli.workflows.sft import plan_base

LEARNING_WORKERS = 4
"""Trainings at once on a cluster where the sampler learns and executor.workers isn't set."""


def sweep(config: SageConfig, progress: Progress, *, detach: bool = False) -> Report:
    """Run what the sweep still lacks; failures are kept with their class and tried again.

    With `detach` the tasks are left to an executor that outlives this process, and what is there
    is reported. Raises TrainingError when no cell has a result.
    """
    from sage_cli.sweep.views import open_study  # Optuna, which a plan doesn't need

    require_mirrors(config.tracking)
    search = prepared(config)
    refuse_trained(search.cells.benchmarks, config.data, "sweep.benchmark")
    require_plugins(RlRecipe.of(search.cells.shared))
    executor = _executor(search, detach=detach)
    share = task_resources(config.executor, config.rl.processes)
    # all cells wait for a base, which may have the threads of all on this machine
    among = executor.places if config.executor.name == "local" else 1
    tasks = TrialTasks(
        search.cells, search.folder.name, share, replace(share, threads=share.threads * among)
    )
    with ExitStack() as held:
        held.enter_context(driver(search.folder.path, search.folder.name))
        search.folder.require_same(search.determinants)
        search.folder.require_storage(config.sweep.storage)
        search.folder.keep_config(config)
        search.folder.forget_cancel()
        with progress.doing("asking who drives the study"):
            study = held.enter_context(closing(open_study(search)))
        if study.before is not None:
            progress.say(
                f"the study was driven from {study.before.folder} on {study.before.host} before: "
                "of its cells those that aren't in this folder of runs are trained again"
            )
        facts = search.facts(study)
        each = len(search.first_seeds)
        shown = SweepProgress(progress, search.folder, facts, search.total * each)
        again = lost(study, search)
        known = [one for one in study.proposals() if one not in again]
        shown.count_earlier([one.state for one in known], each)
        drive = Driver(search.settings, study, tasks, executor, search.folder, shown)
        try:
            drive.run(again, detach=detach)
        finally:
            shown.close()
        report = outcome(search, study, drive.under_way).write(search.folder.path)
        mirror_report(report, facts, config.tracking)
    if (why := drive.stopped_by) is not None:
        raise TrainingError(
            f"{config.sweep.stop_after} cells in a row failed in one way, so that the sweep was "
            f"stopped; the last: {why.kind}: {why.reason}",
            f"see what is in their way (logs: {search.folder.cells}) and type the same command "
            "again: these cells count as not tried; sweep.stop_after=null goes on regardless",
        )
    proposals = study.proposals()
    if proposals and all(one.state is State.FAILED for one in proposals):
        raise TrainingError(
            f"every cell failed; the first: {proposals[0].attrs.get('reason')}",
            f"read the logs in {search.folder.cells}; the same command tries again",
        )
    return report


def plan(config: SageConfig, gpu: str | None = None) -> list[Stage]:
    """What a sweep would do: its base, what its cells share, and every cell's run.

    `gpu` names a card, against which memory of the shared settings is laid.
    """
    search = prepared(config)
    recipe, shared = RlRecipe.of(search.cells.shared), search.cells.shared
    known = list(search.space.cells()) if search.sampler == "grid" else []
    trainings = [search.cells.training(cell, seed) for cell in known for seed in search.first_seeds]
    done = [search.cells.trained(one) is not None for one in trainings]
    count = len(trainings) or search.total * len(search.first_seeds)
    left = count - sum(done)
    facts: dict[str, Any] = {
        "folder": str(search.folder.path),
        "sampler": search.sampler,
        "cells": search.total,
        "trainings": f"{count}, {sum(done)} of them done",
        "steps": f"{recipe.rl.steps} a training, {left * recipe.rl.steps:,} to do",
        "completions": f"{left * recipe.rl.steps * batch_of(recipe.rl, 1).completions:,}",
        "objectives": " and ".join(config.sweep.objective),
        **_estimate(shared, left, _section(search).workers or left),
        **evaluation_facts(EvaluationRecipe.of(shared)),
        **{
            _title(one): _state(one, measured)
            for one, measured in zip(trainings, done, strict=True)
        },
    }
    return [
        plan_base(SftRecipe.of(shared), search.cells.base),
        Stage("RL, shared by all cells", {**rl_facts(recipe), **rl_hours(recipe)}),
        Stage("sweep", facts),
        *(memory_stages(shared, card(gpu), base=True) if gpu else []),
    ]


def _executor(search: Sweep, *, detach: bool) -> Executor:
    """What runs the tasks; refused with `detach` where they would end with this process."""
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
    """Where tasks run, and how many at once: without a number only the cluster knows.

    A sampler that learns isn't asked for all cells at once.
    """
    section = search.config.executor
    if section.name == "local":
        workers: int | None = local_places(section, search.config.rl.processes)
    else:
        workers = section.workers or (None if search.sampler == "grid" else LEARNING_WORKERS)
    return section.model_copy(update={"workers": workers})


def _estimate(config: SageConfig, trainings: int, places: int) -> dict[str, str]:
    """How long so many trainings take by `places` at once, going by earlier runs of their kind."""
    per_step = seconds_per_step(Runs(config.run.root), config)
    if per_step is None:
        return {"time": "unknown: no finished run of this kind is there to go by"}
    expected = duration([config.rl.steps] * trainings, places, per_step)
    gpus = task_resources(config.executor, config.rl.processes).gpus
    hours = {"GPU hours": f"{expected.task_s * gpus / 3600:.2g}"} if gpus else {}
    return {
        "time": f"{expected.wall_s / 60:.1f} minutes of training by {places} at once, going by the "
        f"latest {expected.runs} runs of this kind; measuring comes on top",
        **hours,
    }


def _title(training: Training) -> str:
    seed = f", seed {training.seed + 1}" if training.seed else ""
    return in_words(training.cell) + seed


def _state(training: Training, measured: bool) -> str:
    found = state(training.run)
    lacking = ", to be measured" if found == "finished" and not measured else ""
    return f"{training.run.id}: {found}{lacking}"
