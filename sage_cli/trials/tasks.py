"""The tasks of trials: what each replicate needs, the command that does it, and when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.store.identity import identity_of
from sage_cli.trials.executors.build import local_places, task_resources
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.task import Task
from sage_cli.trials.trial import Replicate

_OF_SFT = ("model.", "prompt.", "data.", "sft.")
_OF_MEASUREMENTS = ("model.", "prompt.", "data.", "evaluation.", "sampling.", "grading.")
"""Sections that the commands read which train an initial policy, and which measure."""
_SAMPLED = ("benchmark", "fields", "samples", "seeds", "seed", "limit")

SFT, RL, EVALUATE, CHECKPOINTS, GUIDE = "sft", "rl", "eval", "checkpoints", "guide"
EXACT = "exact"
REPORTED = 4
"""Completions of a guided policy in its token report."""


@dataclass(frozen=True)
class ExactReading:
    """The exact chances of a policy that are read, by temperatures beside its evaluation's.

    `k` is what the command shows; `checkpoints` are those of its training as well.
    """

    temperatures: tuple[float, ...]
    k: str
    checkpoints: bool

    def at(self, config: SageConfig) -> tuple[float, ...]:
        """Return all temperatures, ascending."""
        return tuple(sorted({config.sampling.temperature, *self.temperatures}))


class TaskList:
    """The tasks of trials, each once: trials may share trainings and measurements.

    `flags` are options of every command line as a person types it, `training` further words of
    every training.
    """

    def __init__(
        self,
        config: SageConfig,
        stored: StoredMeasurements,
        flags: tuple[str, ...] = (),
        training: tuple[str, ...] = (),
    ) -> None:
        section, processes = config.executor, config.rl.processes
        self._share = task_resources(section, processes)
        # all tasks wait for the initial policy, which may have the threads of all on this machine
        places = local_places(section, processes) if section.name == "local" else 1
        self._alone = replace(self._share, threads=self._share.threads * places)
        self._stored, self._flags, self._training = stored, flags, training
        self.tasks: dict[str, Task] = {}

    def initial(self, one: Replicate) -> Task | None:
        """Train the initial policy; None if it is a model that is taken as it is."""
        initial = one.initial
        if initial.run is None:
            return None
        return self._add(
            initial.label, f"initial policy {initial.label}", ("sft",), one, lambda: initial.exists,
            SFT, one.words.about(*_OF_SFT), run=initial.run, resources=self._alone,
        )  # fmt: skip

    def training(self, one: Replicate, *, measure: bool = True) -> Task:
        """Train a replicate, and measure it by the same command."""
        policy, run = one.policy, one.policy.run
        assert run is not None  # RL leads to one
        if policy.label in self.tasks:
            return self.tasks[policy.label]

        by_chances = measure and one.config.evaluation.chances

        def is_done() -> bool:
            if by_chances:
                return run.finished and self._chances_are_read(one)
            task.measured = self._stored.measured(policy, one.config) if measure else None
            return run.finished and (not measure or task.measured is not None)

        # a gain is over the initial policy, whose chances are read before
        needs = self.measurement(one.of_initial) if by_chances else self.initial(one)
        words = ("rl", "--measure") if measure else ("rl",)
        task = self._add(
            policy.label, one.title, (*words, *self._training), one, is_done, RL, one.words.all,
            run=run, needs=needs, measures=measure, replicate=one,
        )  # fmt: skip
        return task

    def measurement(self, one: Replicate) -> Task:
        """Measure the policy of a replicate, unless its training does."""
        policy, key = one.policy, _key(one.config)
        if one.config.evaluation.chances:
            settings = one.config.evaluation
            return self.chances(one, ExactReading(settings.temperatures, settings.k, False))
        training = self.tasks.get(policy.label)
        if training is not None and training.measures and _key(training.config) == key:
            return training
        return self._evaluation(
            one, f"{policy.label}-on-{key}", policy.word, EVALUATE,
            lambda: self._stored.measured(policy, one.config) is not None,
        )  # fmt: skip

    def checkpoints(self, one: Replicate) -> Task:
        """Measure all that a training keeps on its way."""
        run = one.policy.run
        assert run is not None  # RL leads to one
        return self._evaluation(
            one, f"{run.id}-checkpoints-{_key(one.config)}", f"{run.id}@all", CHECKPOINTS,
            lambda: self._stored.checkpoints_are_measured(run, one.config), checkpoints=True,
        )  # fmt: skip

    def chances(self, one: Replicate, reading: ExactReading) -> Task:
        """Read the exact chances of right texts under the policy of a replicate."""
        policy, temperatures = one.policy, reading.at(one.config)
        # an initial policy is the end of its training: what SFT keeps on its way is not read
        all_of_it = reading.checkpoints and not one.is_initial
        word = f"{policy.word}@all" if all_of_it else policy.word
        steps = "-checkpoints" if all_of_it else ""
        key = identity_of("exact", {"of": _key(one.config), "temperatures": temperatures})[:8]
        texts = ",".join(repr(temperature).removesuffix(".0") for temperature in temperatures)
        return self._evaluation(
            one, f"{policy.label}{steps}-exact-{key}", word, EXACT,
            lambda: self._stored.chances_are_read(policy, one.config, temperatures, all_of_it),
            ("analyze", "exact", word, "--temperature", texts, "--k", reading.k),
            checkpoints=all_of_it,
        )  # fmt: skip

    def _chances_are_read(self, one: Replicate) -> bool:
        temperatures = EvaluationSpec.of(one.config).temperatures
        return self._stored.chances_are_read(one.policy, one.config, temperatures, False)

    def token_report(self, one: Replicate, label: str) -> Task:
        """Keep what the guide does to some completions of a training, token by token."""
        run = one.policy.run
        assert run is not None  # RL leads to one
        words = ("samples", "tokens", run.id, "--limit", str(REPORTED), "--keep")
        return self._add(
            f"{run.id}-guide", f"guide of {label}", words, one, lambda: run.guide.is_file(), GUIDE,
            (), needs=self.tasks[run.id],
        )  # fmt: skip

    def _evaluation(
        self,
        one: Replicate,
        name: str,
        of: str,
        kind: str,
        done: Callable[[], bool],
        words: tuple[str, ...] = (),
        *,
        checkpoints: bool = False,
    ) -> Task:
        """`sage eval` of a policy or of a run's checkpoints, or other words about it."""
        needs = self.tasks.get(one.policy.label)
        if needs is None and one.is_initial:
            needs = self.initial(one)
        return self._add(
            name, f"{of} on {one.config.evaluation.benchmark}", words or ("eval", of), one, done,
            kind, one.words.about(*_OF_MEASUREMENTS), needs=needs, measures=True,
            checkpoints=checkpoints,
        )  # fmt: skip

    def _add(
        self,
        name: str,
        title: str,
        words: tuple[str, ...],
        one: Replicate,
        done: Callable[[], bool],
        kind: str,
        options: tuple[str, ...],
        **further: Any,
    ) -> Task:
        """The task of that name, made if it is not in the list."""
        if name not in self.tasks:
            self.tasks[name] = Task(
                name, title, words, one.config, done, **{"resources": self._share, **further},
                kind=kind, options=(*options, *self._flags),
            )  # fmt: skip
        return self.tasks[name]


def _key(config: SageConfig) -> str:
    """Eight digits of what decides the samples of a policy and their grades."""
    recipe = EvaluationSpec.of(config)
    sampled = recipe.evaluation.model_dump(mode="json", include=set(_SAMPLED))
    settings = [sampled, recipe.sampling.determinants(), recipe.grading.determinants()]
    return identity_of("measurement", {"settings": settings})[:8]
