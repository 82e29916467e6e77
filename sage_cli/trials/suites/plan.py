"""From a suite, presets and `--set` to its trials, their tasks, and where its report will be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sage_cli.config.load import changed, load, typed
from sage_cli.config.readers import unread
from sage_cli.config.schema import SageConfig
from sage_cli.config.unread_settings import NOT_READ_BY
from sage_cli.errors import ConfigurationError
from sage_cli.json_value import leaves
from sage_cli.reports.labels import seed_title
from sage_cli.settings.k_values import capped_ks
from sage_cli.settings.model import PretrainedModel
from sage_cli.store.result_hash import identity_of
from sage_cli.trials.stored_results import BenchmarkCache
from sage_cli.trials.suites.declaration import (
    PAPERS_PRESET,
    Arm,
    Protocol,
    Suite,
    shown_label,
    with_included,
)
from sage_cli.trials.task import Task, TaskList
from sage_cli.trials.trial import Replicate, Trial, Words


@dataclass(frozen=True)
class Overrides:
    """The words typed beside a suite: presets, `--set`, the number of seeds, flags."""

    presets: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    seeds: int | None = None
    flags: Mapping[str, Mapping[str, Any]] | None = None
    """Flags by section, as where tasks run."""
    only: tuple[str, ...] = ()
    """Labels of the methods that are done; () means all."""
    points: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """Settings that tuning chose, by suite and method."""

    def config(
        self,
        own_preset: str | None = None,
        flags: Mapping[str, Any] | None = None,
        sets: Sequence[str] = (),
    ) -> SageConfig:
        """The configuration of these settings; `sets` lie below what was typed with `--set`."""
        all_flags = {**(self.flags or {}), **(flags or {})}
        written = json.dumps(all_flags, default=str, sort_keys=True)
        return _loaded(self.presets_with(own_preset), written, (*sets, *self.sets))

    def presets_with(self, preset: str | None) -> tuple[str, ...]:
        """The presets, with `own` in the place of the paper's main one."""
        return tuple(preset if preset and name == PAPERS_PRESET else name for name in self.presets)


@cache
def _loaded(presets: tuple[str, ...], flags_json: str, sets: tuple[str, ...]) -> SageConfig:
    """A configuration; suites that are done together share a few."""
    return load(presets, json.loads(flags_json), sets).config


def trials_of(suite: Suite, overrides: Overrides) -> list[Trial]:
    """The trials of a suite, one for each method; the initial policy has one replicate.

    Raises ConfigurationError, with its label, for a method that cannot be configured.
    """
    trials = []
    for label, method in suite.methods.items():
        try:
            trials.append(_trial(suite, label, method, overrides))
        except ConfigurationError as error:
            cause = f"suite {suite.name}, method {label}: {error.cause}"
            raise ConfigurationError(cause, error.next_step) from None
    return trials


def _trial(suite: Suite, label: str, method: Arm, overrides: Overrides) -> Trial:
    from sage_cli.evaluation.benchmarks import check_benchmark_named

    preset, choices = method.preset or suite.preset, method.choices
    flags = {
        "rl": {"algo": choices.get("algo")},
        "guide": {"name": choices.get("guide")},
        "anchor": {"kl": choices.get("kl")},
    }
    settings = {
        **suite.settings,
        **method.settings,
        **overrides.points.get((suite.name, label), {}),
    }
    sets = [_assignment(key, value) for key, value in settings.items()]
    plain = overrides.config(preset, flags, sets)
    papers = isinstance(plain.model, PretrainedModel)
    measurement = _measurement(suite, plain, overrides, papers=papers) if suite.measured else {}
    if suite.measured and "evaluation.benchmark" not in measurement:
        check_benchmark_named(plain, "evaluation.benchmark")
    sets += [_assignment(key, value) for key, value in measurement.items()]
    # the configuration that those words make on a command line, without reading presets again
    first = changed(plain, measurement) if measurement else plain
    read = (
        text
        for text in (*sets, *overrides.sets)
        if text.split(".")[0].strip() not in NOT_READ_BY["rl"]
        and not unread(first, text.partition("=")[0].strip())
    )
    words = Words(overrides.presets_with(preset), choices, tuple(read))
    seeds = overrides.seeds or (suite.protocol.seeds if papers else suite.seeds)
    number = 1 if method.is_base else seeds
    replicates = []
    for seed in range(number):
        settings = {"rl.seed": first.rl.seed + seed} if seed else {}
        seed_sets = [_assignment(key, value) for key, value in settings.items()]
        replicates.append(
            Replicate(
                seed_title(label, seed + 1) if number > 1 else shown_label(label),
                seed,
                changed(first, settings) if settings else first,
                replace(words, sets=(*words.sets, *seed_sets)),
                is_initial=method.is_base,
            )
        )
    return Trial(label, {**choices, **method.settings}, tuple(replicates))


CONTROLLED = ("model", "prompt", "data", "sft", "rl", "rollout", "anchor", "grading")
"""The sections that a method shares with its control, which has no guide."""


def with_controls(suite: Suite, trials: Sequence[Trial]) -> Suite:
    """Return the suite where a guide's control is the first method that equals it otherwise."""
    plain: dict[str, str] = {}
    methods = dict(suite.methods)
    for trial in sorted(trials, key=lambda trial: trial.config.guide.name != "none"):
        method = methods[trial.label]
        read = {name: getattr(trial.config, name) for name in CONTROLLED}
        settings = {name: section.determinants() for name, section in read.items()}
        key = identity_of("control", {**settings, "preset": method.preset})
        if trial.config.guide.name != "none":
            control = method.control or plain.get(key)
            methods[trial.label] = method.model_copy(update={"control": control})
        elif not trial.is_initial:
            plain.setdefault(key, trial.label)
    return suite.model_copy(update={"methods": methods})


def _measurement(
    suite: Suite, plain: SageConfig, overrides: Overrides, *, papers: bool
) -> dict[str, Any]:
    """The settings of a suite's measurement that `plain` and the user do not say.

    These are the paper's protocol if its models are measured, and always the suite's k up to the
    available samples.
    """
    current = dict(leaves(plain.model_dump(mode="json", include={"evaluation", "sampling"})))
    typed_keys = {text.partition("=")[0].strip() for text in overrides.sets}
    usual, settings = Protocol().settings, dict(suite.protocol.settings if papers else {})
    for key in usual:  # the user's preset wins over what no suite declares
        if settings.get(key) == usual[key] and plain.named_here(key):
            del settings[key]
    samples = current if "evaluation.samples" in typed_keys else {**current, **settings}
    settings["evaluation.k"] = capped_ks(suite.k, samples["evaluation.samples"])
    return {
        key: value
        for key, value in settings.items()
        if key not in typed_keys and current[key] != value
    }


def _assignment(key: str, value: Any) -> str:
    """`key=value` so that `--set` reads the value back."""
    return f"{key}={typed(value)}"


@dataclass(frozen=True)
class Part:
    """One of the suites that are done together, and its trials."""

    suite: Suite
    trials: Sequence[Trial]

    @property
    def replicates(self) -> list[Replicate]:
        """The replicates of all trials."""
        return [replicate for trial in self.trials for replicate in trial.replicates]

    @cached_property
    def same(self) -> Mapping[str, str]:
        """Label -> an earlier method that leads to the same policies under these settings."""
        same: dict[str, str] = {}
        seen: dict[tuple[str, ...], str] = {}
        for trial in self.trials:
            policies = tuple(replicate.policy.label for replicate in trial.replicates)
            earlier = seen.setdefault(policies, trial.label)
            if earlier != trial.label:
                same[trial.label] = earlier
        return same

    def want(self, tasks: TaskList) -> None:
        """Add the tasks of the suite to the list, each after what it needs."""
        # trainings take longest: none waits for the measurement of the initial policy, unless that
        # one takes all cores
        first = tasks.measures_initial_first
        for trial in sorted(self.trials, key=lambda trial: trial.is_initial is not first):
            for replicate in trial.replicates:
                for task in self._wanted(trial, replicate, tasks):
                    if self.suite.name not in task.wanted_by:
                        task.wanted_by.append(self.suite.name)

    def _wanted(self, trial: Trial, replicate: Replicate, tasks: TaskList) -> list[Task]:
        suite, initial = self.suite, tasks.initial(replicate)
        tasks_of_replicate = [initial] if initial is not None else []
        if not trial.is_initial:
            tasks_of_replicate.append(tasks.training(replicate, measure=suite.measured))
        if suite.measured:
            tasks_of_replicate.append(tasks.measurement(replicate))
        if trial.is_initial:
            return tasks_of_replicate
        if suite.checkpoints:
            tasks_of_replicate.append(tasks.checkpoints(replicate))
        return tasks_of_replicate


@dataclass(frozen=True, eq=False)
class PlannedSuite:
    """The suites that are done together, the named one last, and their tasks in order."""

    overrides: Overrides
    config: SageConfig
    parts: Sequence[Part]
    tasks: Sequence[Task]
    benchmarks: BenchmarkCache

    @property
    def suite(self) -> Suite:
        """The suite that was named."""
        return self.parts[-1].suite

    @cached_property
    def folder(self) -> Path:
        """Return the suite's folder, named by a hash of all that decides its results."""
        tasks = sorted(f"{task.kind} {task.name}" for task in self.tasks)
        sweeps = [part.suite.sweep for part in self.parts if part.suite.sweep]
        identity = identity_of("suite", {"tasks": tasks, "sweeps": sweeps})
        return self.config.run.root / "suites" / f"{self.suite.name}-{identity[:8]}"

    @property
    def failures(self) -> Path:
        """The file that says why tasks failed."""
        return self.folder / "failures.json"


def prepare_suite(name: str, overrides: Overrides) -> PlannedSuite:
    """The suite called `name` under these overrides; nothing is loaded or written."""
    suites = [suite.only(overrides.only) for suite in with_included(name)]
    config = overrides.config()
    trials = [trials_of(suite, overrides) for suite in suites]
    # a method and its control may be tuned to different settings
    suites = [with_controls(s, trials_of(s, replace(overrides, points={}))) for s in suites]
    parts = [Part(*pair) for pair in zip(suites, trials, strict=True)]
    root = (overrides.flags or {}).get("run", {}).get("root")
    tasks = TaskList(config, ("--runs", str(root)) if root else ())
    for part in parts:
        part.want(tasks)
    return PlannedSuite(overrides, config, parts, list(tasks.tasks.values()), tasks.benchmarks)
