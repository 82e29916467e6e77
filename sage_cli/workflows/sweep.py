"""`sage sweep`: every cell of a search space becomes a run, measured on development problems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.markup import escape

from sage_cli.config.in_words import Stage, evaluation_facts, rl_facts
from sage_cli.config.recipe import EvaluationRecipe, RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import batch_of
from sage_cli.errors import SageError, TrainingError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks, refuse_trained
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import pass_at_k
from sage_cli.policies.planned import planned_base
from sage_cli.policies.policy import Policy
from sage_cli.policies.state import state
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.sweep import SweepCell, sweep_document
from sage_cli.store.lock import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Runs
from sage_cli.sweep.space import Cell
from sage_cli.sweep.trials import sweep_folder, trial, trials
from sage_cli.workflows.rl import planned_run, rl
from sage_cli.workflows.sft import base_policy, plan_base

if TYPE_CHECKING:
    from sage_cli.sweep.study import CellResult, Study


def sweep(config: SageConfig, progress: Progress) -> Report:
    """Run what the grid still lacks; failures are kept with their reason and tried again.

    Raises TrainingError when no cell has a result.
    """
    from sage_cli.sweep.study import Study

    require_mirrors(config.tracking)
    config, space = trials(config)
    folder = sweep_folder(config, space)
    objectives = config.sweep.objective
    # what every cell needs, so that its absence isn't found cell by cell
    benchmarks = load_benchmarks(config.evaluation, config.data)
    refuse_trained(benchmarks, config.data, "sweep.benchmark")
    with writer(folder):
        study = Study(folder, space, objectives)
        if study.pending():
            base_policy(config, progress)
        total = len(list(space.cells()))
        for _ in range(1 + config.sweep.retries):
            for cell in study.pending():
                done = total - len(study.pending())
                progress.say(f"[bold]cell {done + 1} of {total}[/]: {in_words(cell)}")
                _run_cell(trial(config, cell, folder.name), study, cell, benchmarks, progress)
        cells = [_with_counts(one, config, benchmarks) for one in study.results()]
        provenance = configured_provenance(benchmarks, EvaluationRecipe.of(config))
        report = sweep_document(space.values, objectives, cells, provenance).write(folder)
    if all(cell.scores is None for cell in cells):
        raise TrainingError(f"every cell failed; the first: {cells[0].reason}")
    return report


def plan(config: SageConfig) -> list[Stage]:
    """What a sweep would do: its base, what its trials share, and every cell's run."""
    config, space = trials(config)
    base = planned_base(SftRecipe.of(config), Runs(config.run.root))
    recipe, cells = RlRecipe.of(config), list(space.cells())
    completions = batch_of(recipe.rl, recipe.rl.processes).completions
    steps = len(cells) * recipe.rl.steps
    return [
        plan_base(SftRecipe.of(config), base),
        Stage("2. RL, shared by all cells", rl_facts(recipe)),
        Stage(
            "3. sweep",
            {
                "folder": str(sweep_folder(config, space)),
                "cells": len(cells),
                "steps": f"{recipe.rl.steps} a cell, {steps:,} in all",
                "completions": f"{steps * completions:,}",
                "objectives": " and ".join(config.sweep.objective),
                **evaluation_facts(EvaluationRecipe.of(config)),
                **{
                    in_words(cell): f"{run.id}: {state(run)}"
                    for cell in cells
                    for run in [planned_run(trial(config, cell, ""), base)]
                },
            },
        ),
    ]


def in_words(cell: Cell) -> str:
    """`tau 0.465, rho 0.775`."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value:g}" for key, value in cell.items())


def _with_counts(
    result: CellResult, config: SageConfig, benchmarks: Sequence[Benchmark]
) -> SweepCell:
    """A cell for the report, with the counts behind its scores where all are still stored."""
    counts, n = None, config.sweep.samples
    if result.run is not None:
        recipe, root = EvaluationRecipe.of(config), config.run.root
        with suppress(SageError):  # the run may be gone, and its scores stay
            policy = Policy.of_run(Runs(root).find(result.run))
            (found, *_), *_ = (
                stored_counts(policy, one, recipe, root, (n,))[n] for one in benchmarks
            )
            counts = found if (found.n_P == n).all() else None
    return SweepCell(result.cell, result.values, result.run, result.reason, counts)


def _run_cell(
    config: SageConfig,
    study: Study,
    cell: Cell,
    benchmarks: Sequence[Benchmark],
    progress: Progress,
) -> None:
    """One trial: a run and its measurement; a failure of its own is kept, not raised."""
    opened = study.begin(cell)
    recipe = EvaluationRecipe.of(config)
    try:
        run = rl(config, progress, sweep=config.tracking.group)
        policy = Policy.of_run(run)
        samples = PolicySamples.of_evaluation(policy, recipe, config.run.root)
        measured = measure([samples], benchmarks, recipe, progress)
    except (SageError, RuntimeError) as error:
        study.fail(opened, f"{type(error).__name__}: {error}")
        progress.say(f"[red]failed[/]: {escape(str(error))}")
        return
    keep_evaluations([policy], measured, recipe, config.tracking)
    ((measurement, *_),) = measured.values()
    counts = measurement.counts
    scores = {
        one.name: one.value(
            {k: float(pass_at_k(counts.n_P, counts.c_P, k).mean()) for k in one.weights}
        )
        for one in config.sweep.objectives
    }
    study.succeed(opened, run.id, scores)
    progress.say("  ".join(f"{name} {value:.3f}" for name, value in scores.items()))
