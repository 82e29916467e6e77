"""The sweeps of a suite: those that tune its arms, those that it reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.load import changed
from sage_cli.errors import ConfigurationError
from sage_cli.problems.load import benchmark_names
from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.plan import Overrides, Part, PlannedSuite, prepare_suite
from sage_cli.trials.sweep.folder import SweepFolder, sweep_folder
from sage_cli.trials.sweep.plan import prepare_sweep, shared_config, sweep_name, trial_count
from sage_cli.trials.sweep.read_space import guide_of, read_space
from sage_cli.trials.sweep.space import Space
from sage_cli.trials.task import DONE, RL, TO_DO, Task
from sage_cli.trials.trial import Trial

if TYPE_CHECKING:
    from sage_cli.trials.sweep.result import SweepTrial


FRESH = 1000
"""The seeds of the trials lie so far above those of the trainings that confirm the choice."""


@dataclass(eq=False, kw_only=True)
class Search(Task):
    """The sweep over a method's settings, before its trainings."""

    trial: Trial
    space: Space

    @property
    def budget(self) -> str:
        """Return what all methods of a suite must have in common."""
        rl = shared_config(self.config).rl
        amount = f"{rl.steps} steps x {rl.prompts_per_step * rl.rollouts_per_prompt}"
        trials = trial_count(self.config) * self.config.sweep.seeds
        return f"{trials} trials x {amount} completions"

    @property
    def tried(self) -> Sequence[SweepTrial]:
        """Return the measured trials, best first; () until the search has spent its budget.

        Raises ConfigurationError if it spent more.
        """
        if (stored := self._stored) is None:
            return ()
        sweep, (folder, state) = self.config.sweep, stored
        result = folder.result
        if result is None or state["trials"]["left"]:
            return ()
        if (count := state["trials"]["done"]) > (sweep.trials or 0):
            raise ConfigurationError(
                f"{self.trial.label} was tuned with {count} trials, but the budget is "
                f"{sweep.trials}",
                f"raise the budget of all arms, or delete {folder.path} (its trials are lost)",
            )
        return [result.trials[index] for index in result.ranked(sweep.objective[0])]

    @property
    def has_failed(self) -> bool:
        """Return True if every trial failed."""
        stored = self._stored
        counts = stored[1]["trials"] if stored else {"failed": 0}
        return bool(counts["failed"]) and not (counts["done"] or counts["left"])

    @property
    def _stored(self) -> tuple[SweepFolder, dict[str, Any]] | None:
        """Return this search's folder and state; None before it began, or if it is another's."""
        path = sweep_folder(self.config.run.root, self.name)
        if not path.is_dir():
            return None
        sweep, folder = self.config.sweep, SweepFolder(path)
        state = folder.state
        asked = [self.space.plain(), sweep.sampler, list(sweep.objective)]
        stored = [state["space"], state["sampler"], state["objectives"]]
        return (folder, state) if stored == json.loads(json.dumps(asked)) else None


def trainings(sweep: Task) -> list[Task]:
    """Return a sweep's trainings as tasks for their cost, by the settings that all share."""
    config, shared = sweep.config, shared_config(sweep.config)
    trial = Task("trial", "", (), shared, bool, sweep.resources, kind=RL, measures=True)
    return [trial] * trial_count(config) * config.sweep.seeds


def prepare_tuned(
    name: str, overrides: Overrides, *, required: bool = False
) -> tuple[PlannedSuite, list[Search]]:
    """Return a suite's plan with each method at its chosen point, if known, and the searches.

    Raises ConfigurationError for unequal budgets, and with `required` for an unspent one.
    """
    plan = prepare_suite(name, overrides)
    searches = {
        (part.suite.name, trial.label): _search(part.suite, trial, overrides.sets)
        for part in plan.parts
        for trial in part.trials
        if part.suite.tune is not None and not trial.is_initial
    }
    budgets = {search.budget: search.trial.label for search in searches.values()}
    if len(budgets) > 1:
        different = "; ".join(f"{label} has {budget}" for budget, label in budgets.items())
        raise ConfigurationError(
            f"suite {name}: the arms are tuned with different budgets: {different}",
            "give all arms the same budget; otherwise the comparison shows the effect of tuning",
        )
    points = {arm: tried[0].settings for arm, s in searches.items() if (tried := s.tried)}
    lacking = sorted(searches.keys() - points.keys())
    if required and (failed := [searches[arm] for arm in lacking if searches[arm].has_failed]):
        raise ConfigurationError(
            f"every trial of the tuning failed: {', '.join(s.trial.label for s in failed)}",
            f"`sage sweep show {failed[0].name}` says why, `sage suite run {name}` tries again",
        )
    if required and lacking:
        raise ConfigurationError(
            f"not tuned yet: {', '.join(label for _, label in lacking)}",
            f"`sage suite run {name}` resumes the searches; `sage sweep list` shows them",
        )
    if points:
        plan = prepare_suite(name, replace(overrides, points=points))
    tasks = {task.name: task for task in plan.tasks}
    for arm in lacking:
        for replicate in searches[arm].trial.replicates:
            tasks[replicate.policy.label].needs = searches[arm]
    return plan, list(searches.values())


def _search(suite: Suite, trial: Trial, typed_sets: Sequence[str]) -> Search:
    tune, config, words = suite.tune, trial.config, trial.replicates[0].words
    assert tune is not None
    space_text = suite.methods[trial.label].space or tune.space
    steps, seed = tune.steps or config.sweep.steps, config.rl.seed + FRESH
    sweep = {"space": space_text, "sampler": "tpe", "trials": tune.trials, "seeds": 1}
    sweep |= {"objective": [tune.objective], "steps": steps}
    config = changed(config, {**{f"sweep.{k}": v for k, v in sweep.items()}, "rl.seed": seed})
    chosen_on, reported = config.sweep.benchmark, config.evaluation.benchmark
    if both := {*benchmark_names(chosen_on)} & {*benchmark_names(reported)}:
        raise ConfigurationError(
            f"suite {suite.name}: {', '.join(sorted(both))} would be used both to "
            "choose settings and to report results",
            "choose other validation problems with --set sweep.benchmark=NAME",
        )
    space = read_space(space_text, config)
    flags = [part for k, v in words.flags.items() if k != "kl" for part in (f"--{k}", v)]
    sets = [f"anchor.kl={v}" for k, v in words.flags.items() if k == "kl"] + [f"rl.seed={seed}"]
    # a trial's own words have none of what only a sweep reads
    typed = {text.partition("=")[0].strip(): text for text in typed_sets}
    own = [key for key in typed if key.startswith(("sweep.", "executor."))]
    sets += [typed[key] for key in own if key.removeprefix("sweep.") not in sweep]
    options = [f"--{key}={value}" for key, value in sweep.items() if key != "objective" and value]
    search = Search(
        sweep_name(shared_config(config), space.keys),
        "",
        ("sweep", *options, "--objective", tune.objective, *flags),
        config,
        bool,
        Resources(),
        kind="sweep",
        wanted_by=[suite.name],
        trial=trial,
        space=space,
        options=(*words.about(""), *(part for text in sets for part in ("--set", text))),
    )
    search.done = lambda: bool(search.tried)
    search.title = f"tune {trial.label}: {search.budget}"
    return search


@dataclass(eq=False, kw_only=True)
class SweepTask(Task):
    """A suite's sweep, which has an executor and tasks of its own; `folder` holds its memory."""

    folder: Path

    @property
    def state(self) -> str:
        """Return how many of a suite's trials are done; nothing is read before it was started."""
        if not self.folder.is_dir():
            return TO_DO
        states = [task.state for task in prepare_sweep(self.config).known_tasks()]
        done = states.count(DONE)
        return DONE if done == len(states) else f"{done}/{len(states)} runs done"


def sweeps_of(plan: PlannedSuite) -> list[SweepTask]:
    """The sweeps of all parts, each over as many seeds as the suite says."""
    return [_sweep_task(part, part.suite.sweep, plan) for part in plan.parts if part.suite.sweep]


def _sweep_task(part: Part, space: str, plan: PlannedSuite) -> SweepTask:
    suite, overrides = part.suite, plan.overrides
    seeds = overrides.seeds or suite.seeds
    sections = {"guide": {"name": guide_of(space)}, "sweep": {"space": space, "seeds": seeds}}
    presets = overrides.presets_with(suite.preset)
    config = overrides.config(suite.preset, sections)
    folder = sweep_folder(
        config.run.root, sweep_name(shared_config(config), read_space(space, config).keys)
    )
    return SweepTask(
        folder.name,
        suite.title,
        ("sweep", "--space", space),
        config,
        bool,
        Resources(),
        kind="sweep",
        folder=folder,
        wanted_by=[suite.name],
        options=(
            *(word for preset in presets for word in ("--preset", preset)),
            "--seeds",
            str(seeds),
            *(word for setting in overrides.sets for word in ("--set", setting)),
        ),
    )
