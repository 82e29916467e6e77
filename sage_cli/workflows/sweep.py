"""`sage sweep`: every cell of a search space becomes a run, measured on development problems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.markup import escape

from sage_cli.config.data import DataSection
from sage_cli.config.in_words import Stage, evaluation_facts, rl_facts
from sage_cli.config.recipe import EvaluationRecipe, RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import batch_of
from sage_cli.errors import ConfigurationError, SageError, TrainingError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import pass_at_k
from sage_cli.policies.planned import planned_base
from sage_cli.policies.policy import Policy
from sage_cli.policies.state import state
from sage_cli.problems.training import load_training_problems
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.sweep import SweepCell, sweep_document
from sage_cli.store.lock import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Runs
from sage_cli.sweep.proposal import Proposal
from sage_cli.sweep.sampler_choice import choose_sampler
from sage_cli.sweep.space import Cell, Space, Value, Values
from sage_cli.sweep.trials import sweep_folder, trial, trials
from sage_cli.workflows.rl import planned_run, rl
from sage_cli.workflows.sft import base_policy, plan_base

if TYPE_CHECKING:
    from sage_cli.sweep.study import Study


def sweep(config: SageConfig, progress: Progress) -> Report:
    """Run what is still lacking; failures are kept with their reason and tried again.

    Raises TrainingError when no cell has a result.
    """
    from sage_cli.sweep.study import Study

    require_mirrors(config.tracking)
    config, space = trials(config)
    folder = sweep_folder(config, space)
    objectives = config.sweep.objective
    # what every cell needs, so that its absence isn't found cell by cell
    benchmarks = load_benchmarks(config.evaluation, config.data)
    _refuse_trained(benchmarks, config.data)
    with writer(folder):
        chosen = choose_sampler(config.sweep.sampler, space, objectives)
        total = config.sweep.trials or (len(list(space.cells())) if chosen == "grid" else 30)
        for _ in range(1 + config.sweep.retries):
            study = Study.open(folder, folder.name, space, chosen, config.sweep.seed, objectives)
            while one := _next(study, total):
                base_policy(config, progress)
                progress.say(f"[bold]cell {one.number + 1}[/]: {in_words(one.cell)}")
                _run_cell(trial(config, one.cell, folder.name), study, one, benchmarks, progress)
        cells = [_with_counts(one, config, benchmarks) for one in study.proposals()]
        provenance = configured_provenance(benchmarks, EvaluationRecipe.of(config))
        report = sweep_document(_axes(space, cells), objectives, cells, provenance).write(folder)
    if all(cell.scores is None for cell in cells):
        raise TrainingError(f"every cell failed; the first: {cells[0].reason}")
    return report


def plan(config: SageConfig) -> list[Stage]:
    """What a sweep would do: its base, what its trials share, and every cell's run."""
    config, space = trials(config)
    base = planned_base(SftRecipe.of(config), Runs(config.run.root))
    recipe = RlRecipe.of(config)
    cells = [] if space.ranges else list(space.cells())
    completions = batch_of(recipe.rl, recipe.rl.processes).completions
    many = len(cells) if config.sweep.sampler in (None, "grid") else config.sweep.trials
    many = many or config.sweep.trials or 30
    steps = many * recipe.rl.steps
    return [
        plan_base(SftRecipe.of(config), base),
        Stage("2. RL, shared by all cells", rl_facts(recipe)),
        Stage(
            "3. sweep",
            {
                "folder": str(sweep_folder(config, space)),
                "cells": many,
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


def _refuse_trained(benchmarks: Sequence[Benchmark], data: DataSection) -> None:
    """Refuse to choose settings on problems that the policies are trained on."""
    trained = {problem.id for problem in load_training_problems(data)}
    for benchmark in benchmarks:
        known = trained.intersection(benchmark.golds)
        if known:
            raise ConfigurationError(
                f"{len(known)} of the {len(benchmark.golds)} problems of {benchmark.name} are "
                f"among those that {data.rl.name} trains on: settings would be chosen by what was "
                "learned by heart",
                "train on fewer (data.rl.limit), or name other problems with --set sweep.benchmark",
            )


def in_words(cell: Cell) -> str:
    """`tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in cell.items()
    )


def _with_counts(
    result: Proposal, config: SageConfig, benchmarks: Sequence[Benchmark]
) -> SweepCell:
    """A cell for the report, with the counts behind its scores where all are still stored."""
    counts, n = None, config.sweep.samples
    run = result.attrs.get("run")
    if run is not None:
        recipe, root = EvaluationRecipe.of(config), config.run.root
        with suppress(SageError):  # the run may be gone, and its scores stay
            policy = Policy.of_run(Runs(root).find(run))
            (found, *_), *_ = (
                stored_counts(policy, one, recipe, root, (n,))[n] for one in benchmarks
            )
            counts = found if (found.n_P == n).all() else None
    return SweepCell(result.cell, result.values, run, result.attrs.get("reason"), counts)


def _next(study: Study, total: int) -> Proposal | None:
    """What an earlier driver left running or failed, or else a new proposal up to `total` cells."""
    if running := study.running():
        return running[0]
    return study.propose() if study.failed or len(study.proposals()) < total else None


def _axes(space: Space, cells: Sequence[SweepCell]) -> dict[str, list[Value]]:
    """Every parameter's values, those of a range as far as they were met."""
    return {
        one.name: list(one.domain.values)
        if isinstance(one.domain, Values)
        else list(dict.fromkeys(cell.settings[one.key] for cell in cells))
        for one in space.parameters
    }


def _run_cell(
    config: SageConfig,
    study: Study,
    proposed: Proposal,
    benchmarks: Sequence[Benchmark],
    progress: Progress,
) -> None:
    """One trial: a run and its measurement; a failure of its own is kept, not raised."""
    recipe = EvaluationRecipe.of(config)
    try:
        run = rl(config, progress, sweep=config.tracking.group)
        policy = Policy.of_run(run)
        samples = PolicySamples.of_evaluation(policy, recipe, config.run.root)
        measured = measure([samples], benchmarks, recipe, progress)
    except (SageError, RuntimeError) as error:
        study.fail(proposed, "error", f"{type(error).__name__}: {error}")
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
    study.note(proposed, run=run.id)
    study.tell(proposed, list(scores.values()))
    progress.say("  ".join(f"{name} {value:.3f}" for name, value in scores.items()))
