"""`sage sweep`: every cell of a search space becomes a run, measured on development problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError, TrainingError
from sage_cli.evaluation.benchmarks import benchmark_problems
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import measure
from sage_cli.metrics import pass_at_k
from sage_cli.policies.policy import Policy, base_policy
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweep import SweepCell, sweep_document
from sage_cli.store.identity import identity_of
from sage_cli.store.lock import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.surroundings import surroundings
from sage_cli.sweep.space import Cell, Space
from sage_cli.sweep.study import Study
from sage_cli.sweep.trials import trials
from sage_cli.workflows.rl import rl


def sweep_folder(config: SageConfig, space: Space) -> Path:
    """Where the sweep's memory is: told by its space and everything that its trials share."""
    settings = config.model_dump(mode="json", exclude={"run", "tracking"})
    identity = identity_of("sweep", {"settings": settings, "values": space.values})
    name = "-".join(space.keys)
    return config.run.root / "sweeps" / f"{name}-{identity[:8]}"


def sweep(config: SageConfig, progress: Progress) -> Report:
    """Run what the grid still lacks; failures are kept with their reason and tried again.

    Raises TrainingError when no cell has a result.
    """
    require_mirrors(config.tracking)
    config, space = trials(config)
    folder = sweep_folder(config, space)
    objectives = tuple(f"pass@{k}" for k in config.sweep.k)
    # what every cell needs, so that its absence isn't found cell by cell
    problems = benchmark_problems(config, config.sweep.benchmark)
    base_policy(config, progress)
    with writer(folder):
        study = Study(folder, space, objectives)
        total = len(list(space.cells()))
        for _ in range(1 + config.sweep.retries):
            for cell in study.pending():
                done = total - len(study.pending())
                progress.say(f"[bold]cell {done + 1} of {total}[/]: {_said(cell)}")
                _run_cell(config, study, cell, problems, folder.name, progress)
        cells = [SweepCell(one.cell, one.values, one.run, one.reason) for one in study.results()]
        report = sweep_document(space.values, objectives, cells, _provenance(config)).write(folder)
    if all(cell.scores is None for cell in cells):
        raise TrainingError(f"every cell failed; the first: {cells[0].reason}")
    return report


def _run_cell(
    config: SageConfig,
    study: Study,
    cell: Cell,
    problems: Sequence[Problem],
    name: str,
    progress: Progress,
) -> None:
    """One trial: a run and its measurement; a failure of its own is kept, not raised."""
    trial = study.begin(cell)
    try:
        trial_config = changed(config, {**cell, "tracking.group": name})
        run = rl(trial_config, progress, sweep=name)
        policy, benchmark = Policy(str(run.model), run), config.sweep.benchmark
        measured = measure(
            policy, trial_config, benchmark, problems, config.evaluation.seed, progress
        )
    except (SageError, RuntimeError) as error:
        study.fail(trial, f"{type(error).__name__}: {error}")
        progress.say(f"[red]failed[/]: {escape(str(error))}")
        return
    keep_evaluations(trial_config, [policy], {(benchmark, policy.label): [measured]})
    counts = measured.counts
    scores = {
        f"pass@{k}": float(pass_at_k(counts.n_P, counts.c_P, k).mean()) for k in config.sweep.k
    }
    study.succeed(trial, run.id, scores)
    progress.say("  ".join(f"{name} {value:.3f}" for name, value in scores.items()))


def _provenance(config: SageConfig) -> Provenance:
    around = surroundings()
    return Provenance(
        sampling=config.sampling.model_dump(mode="json"),
        seeds=(config.evaluation.seed,),
        versions=around["versions"],
        commit=around["commit"],
        command=around["command"],
    )


def _said(cell: Cell) -> str:
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value:g}" for key, value in cell.items())
