"""What a suite would do: its tasks with their states, their costs, what is worth knowing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.models.hub_cache import pinned_revision
from sage_cli.models.shipped_base import shipped_source
from sage_cli.settings.k_values import capped_ks
from sage_cli.settings.model import PretrainedModel
from sage_cli.training.checks import RlChecks, check_demonstrations
from sage_cli.trials.cost import cost, cost_left, cost_of
from sage_cli.trials.suites.plan import Overrides, PlannedSuite
from sage_cli.trials.suites.sweeps import prepare_tuned, sweeps_of, trainings
from sage_cli.trials.task import DONE, Task

_CHECKED: dict[str, Any] = {
    "data": True,
    "sft": True,
    "rl": {"rewards"},
    "grading": True,
    "guide": True,
}
"""The settings of a training run that decide whether its rows and functions can be used."""
UNCHOSEN = (
    "arms that are tuned first are shown with their present settings; they are trained with the "
    "best settings that the tuning finds"
)


def plan_suite(name: str, overrides: Overrides) -> dict[str, Any]:
    """Return the tasks of `run_suite` with their states and costs; all rows of data are read.

    `tasks` stand in the order in which they can be done, each with the suites that want it. The
    cost of a sweep's trials is shown by `sage sweep --dry-run`.
    """
    plan, searches = prepare_tuned(name, overrides)
    configs = (replicate.config for part in plan.parts for replicate in part.replicates)
    for config in {c.model_dump_json(include=_CHECKED): c for c in configs}.values():
        RlChecks(config).check(offline=True)
        if config.sft.enabled:
            check_demonstrations(config)
    tasks = [{**_shown(task), "cost": cost_of(task)} for task in plan.tasks]
    states = [task["state"] for task in tasks]
    left = [task for task, state in zip(plan.tasks, states, strict=True) if state != DONE]
    sweeps = sweeps_of(plan)
    trials = [(sweep.state, trainings(sweep)) for sweep in (*searches, *sweeps)]
    left += [trial for state, alike in trials if state != DONE for trial in alike]
    return {
        "suite": plan.suite.name,
        "title": plan.suite.title,
        "folder": str(plan.folder),
        "tasks": [*map(_shown, searches), *tasks, *map(_shown, sweeps)],
        "cost": cost([*plan.tasks, *(trial for _, alike in trials for trial in alike)]),
        "left": cost_left(left),
        "papers_models": any(
            isinstance(trial.config.model, PretrainedModel)
            for part in plan.parts
            for trial in part.trials
        ),
        "chosen": [sentence for part in plan.parts for sentence in part.suite.chosen],
        "notes": _notes(plan) + ([UNCHOSEN] if any(not s.tried for s in searches) else []),
    }


def _shown(task: Task) -> dict[str, Any]:
    return {**task.as_json(), "suites": task.wanted_by}


def _notes(plan: PlannedSuite) -> list[str]:
    notes = ["the cost is an upper bound: samples that arms share are counted once for each arm"]
    models: dict[str, str | None] = {}
    for part in plan.parts:
        notes += [
            f"{part.suite.name}: under these settings {label} equals {same_as}, so they share "
            "their runs"
            for label, same_as in part.same.items()
        ]
        for replicate in part.replicates:
            model, initial = replicate.config.model, replicate.initial
            if isinstance(model, PretrainedModel):
                models[model.path] = pinned_revision(model.path, model.revision)
            if shipped_source(initial.run) is not None:
                shipped = f"the initial policy {initial.label} comes with sage"
                notes += [] if shipped in notes else [shipped]
        if not part.suite.measured or not part.trials:
            continue
        samples = part.trials[0].config.evaluation.samples
        if capped_ks(part.suite.k, samples) != part.suite.k:
            notes.append(
                f"{part.suite.name}: the suite's values of k ({part.suite.k}) are cut at "
                f"{samples}, because evaluation.samples is {samples}"
            )
    unknown = [path for path, commit in models.items() if not commit and not Path(path).is_dir()]
    if unknown:
        notes.append(
            f"{', '.join(unknown)} is not in the local cache of the Hub, so the IDs of runs that "
            "are trained from it are provisional"
        )
    for part in plan.parts:
        compared: dict[str, list[str]] = {}
        for label, method in part.suite.methods.items():
            if method.control:
                compared.setdefault(method.control, []).append(label)
        notes += [
            f"{part.suite.name}: {baseline} is the baseline of {', '.join(labels)}"
            for baseline, labels in compared.items()
        ]
    return notes
