"""`sage sweeps confirm`: the best trials with fresh seeds on the benchmark that is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sage_cli.commands.trials.sweeps import named_objectives, reported, settings_of
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec, RlSpec
from sage_cli.errors import ConfigurationError, SageError, StoreError
from sage_cli.evaluation.benchmarks import refuse_trained
from sage_cli.evaluation.provenance import configured_provenance
from sage_cli.planning.dry_run import Described
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.sweeps.confirmed import FreshTrial, confirmed_document
from sage_cli.settings.presets import read_layer
from sage_cli.store.lock import driver
from sage_cli.store.mirrors.follower import require_mirrors
from sage_cli.training.rewards.load import require_plugins
from sage_cli.trials.cost import cost_left
from sage_cli.trials.executors.build import build_executor
from sage_cli.trials.failures import Failure, all_failed
from sage_cli.trials.run_tasks import run_tasks
from sage_cli.trials.search.confirmation import FRESH, Confirmation
from sage_cli.trials.search.folder import CONFIG, SweepFolder
from sage_cli.trials.search.prepared import prepared
from sage_cli.trials.search.scores import stored_results
from sage_cli.trials.task import left_and_states

TOP = 3
"""Trials by each objective that are confirmed if nothing else is said."""


def planned(
    sweep: SweepFolder,
    seeds: int,
    top: int | None = None,
    objective: str | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
) -> Confirmation:
    """Return the confirmation of the `top` trials by each objective, after every check.

    Raises StoreError if no trial is done, ConfigurationError for more trials than are done, an
    unknown objective, settings of another sweep, and seeds that the search has.
    """
    result = reported(sweep)
    names = named_objectives(sweep, result, objective)
    there = len(result.done)
    if not there:
        raise StoreError(f"no trial of {sweep.name} is done", "finish the sweep first")
    if top is not None and top > there:
        count = "1 finished trial" if there == 1 else f"{there} finished trials"
        raise ConfigurationError(
            f"--top {top}: {sweep.name} has {count}", f"confirm all of them with --top {there}"
        )
    root = {"run": {"root": sweep.path.parent.parent}}
    settings_of(sweep)  # so that no option is blamed for what is stored
    stored = read_layer(sweep.path / CONFIG)
    search = prepared(load(stored=stored, flags={**(flags or {}), **root}, sets=sets).config)
    if search.folder.path.resolve() != sweep.path.resolve():
        raise ConfigurationError(
            f"these settings belong to the sweep {search.folder.name}, not to {sweep.name}",
            "leave out every --set that changes what a trial is trained with or searched on",
        )
    search.folder.refuse_other(search.determinants)
    most = min(TOP, there) if top is None else top
    best = (place for one in names for place in result.ranked(one)[:most])
    points = {place: result.trials[place].settings for place in best}
    found = Confirmation(search, points, seeds)
    found.require_fresh([run for trial in result.trials for run in trial.runs])
    return found


def confirm(sweep: SweepFolder, plan: Confirmation, progress: Progress) -> Report:
    """Train and measure what the confirmation lacks, and report; typed again it resumes.

    Raises TrainingError if no trial has a result.
    """
    search, config = plan.sweep, plan.sweep.config
    require_mirrors(config.tracking)
    refuse_trained(plan.benchmarks, config.data, "evaluation.benchmark")
    require_plugins(RlSpec.of(plan.config))
    folder = search.folder
    executor = build_executor(config.executor, folder=folder.path, processes=config.rl.processes)
    with driver(folder.path, folder.name):
        folder.require_same(search.determinants)
        folder.forget_cancel()
        for place, point in plan.points.items():
            for one in plan.replicates(place):
                folder.remember(point, one.seed, one.policy.label)
        failures = run_tasks(
            plan.tasks(), executor, folder.tasks, config.sweep.retries, progress,
            enough=lambda: folder.cancelled,
        )  # fmt: skip
        trials = [_fresh(plan, place, failures) for place in plan.points]
        if not any(one.counts for one in trials):
            if failures:
                raise all_failed(map(str, failures.values()), folder.tasks)
            raise StoreError(
                f"the confirmation of {folder.name} was cancelled before a run was measured",
                "run the same command again to resume",
            )
        return confirmed_document(
            folder.name,
            reported(sweep),
            config.sweep.objectives,
            trials,
            ([one.name for one in search.benchmarks], [one.name for one in plan.benchmarks]),
            plan.seeds,
            configured_provenance(plan.benchmarks, EvaluationSpec.of(plan.config)),
            config.evaluation.confidence,
        ).write(folder.path)


def dry_run(plan: Confirmation) -> list[Described]:
    """Describe the confirmation: what it trains and measures, every task's state, and the cost."""
    tasks = plan.tasks()
    left, states = left_and_states(tasks)
    evaluation, first = plan.config.evaluation, plan.config.rl.seed + FRESH
    selected = {one.name for one in plan.sweep.benchmarks}
    both = [one.name for one in plan.benchmarks if one.name in selected]
    facts: dict[str, Any] = {
        "folder": str(plan.sweep.folder.path),
        "trials": ", ".join(str(place + 1) for place in plan.points),
        "rl.seed": f"{first} to {first + plan.seeds - 1}",
        "benchmark": evaluation.benchmark,
        "samples": evaluation.samples,
        **({"selected on": f"{', '.join(both)}: its problems are not fresh"} if both else {}),
        "left": cost_left(left).describe(),
        **states,
    }
    return [Described(f"confirmation of {plan.sweep.folder.name}", facts)]


def _fresh(plan: Confirmation, place: int, failures: Mapping[str, Failure]) -> FreshTrial:
    """Return a trial's stored results; those that cannot be read, or failed, with the reason."""
    runs, counts, why = [], [], []
    initial = stored_results(plan.stored, plan.initial(place))
    for one in plan.replicates(place):
        label = one.policy.label
        runs.append(label)
        try:
            found = stored_results(plan.stored, one)
        except SageError as error:
            why.append(f"{label}: {error.cause}")
            continue
        if found is None:
            why.append(f"{label}: {failures.get(label, 'not run yet')}")
        else:
            counts.append(found)
    if initial is None:
        return FreshTrial(place, tuple(runs), (), {}, ("its initial policy is not measured", *why))
    return FreshTrial(place, tuple(runs), tuple(counts), initial, tuple(why))
