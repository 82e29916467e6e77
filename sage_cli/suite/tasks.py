"""A suite's tasks: `sage` command lines, what each needs, and whether it is done."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.executors.executor import Resources
from sage_cli.policies.policy import Policy
from sage_cli.store.identity import identity_of
from sage_cli.suite.arms import Arm
from sage_cli.suite.declaration import Suite
from sage_cli.suite.stored import StoredMeasurements
from sage_cli.trials.task import Task

_OF_BASES = ("model.", "prompt.", "data.", "sft.")
_OF_MEASUREMENTS = ("model.", "prompt.", "data.", "evaluation.", "sampling.", "grading.")
"""Sections that the commands read which make a base, and which measure."""
_DRAWN = ("benchmark", "fields", "samples", "seeds", "seed", "limit")

SFT, RL, EVALUATE, CHECKPOINTS, GUIDE = "sft", "rl", "eval", "checkpoints", "guide"
LOOKED_AT = 4
"""Completions of a guided policy whose tokens are looked at."""


@dataclass(eq=False, kw_only=True)
class SuiteTask(Task):
    """A task of a suite. `options` make its configuration on a command line; `suites` want it."""

    kind: str
    options: tuple[str, ...]
    measures: bool
    suites: list[str] = field(default_factory=list)

    @property
    def typed(self) -> str:
        """The command as a person would type it."""
        return shlex.join(("sage", *self.words, *self.options))


class Tasks:
    """The tasks of one or more suites, each once: trainings are shared, and so are measurements.

    `share` is what a task gets, `alone` what a base does, for which all others wait. `everywhere`
    are options of every command line.
    """

    def __init__(
        self,
        stored: StoredMeasurements,
        share: Resources,
        alone: Resources,
        everywhere: tuple[str, ...] = (),
    ) -> None:
        self._stored, self._share, self._alone = stored, share, alone
        self._everywhere = everywhere
        self.tasks: dict[str, SuiteTask] = {}
        self._measurements: dict[tuple[str, str], SuiteTask] = {}

    def add(self, suite: Suite, arms: Iterable[Arm]) -> None:
        """What a suite needs that isn't among the tasks yet."""
        for arm in arms:
            for task in self._of(suite, arm):
                if suite.name not in task.suites:
                    task.suites.append(suite.name)

    def _of(self, suite: Suite, arm: Arm) -> list[SuiteTask]:
        base = self._base(arm)
        found = [base] if base is not None else []
        if not arm.is_base:
            found.append(self._training(suite, arm, base))
        if suite.measured:
            found.append(self._measurement(arm))
        if suite.checkpoints and not arm.is_base:
            found.append(self._checkpoints(arm))
        if suite.measured and arm.config.guide.name != "none" and not arm.is_base and not arm.seed:
            found.append(self._look(arm))
        return found

    def _base(self, arm: Arm) -> SuiteTask | None:
        """Training what RL begins with; None for a model that is taken as it is."""
        base = arm.base
        if base.run is None:
            return None
        return self._put(
            SuiteTask(
                base.label, f"base {base.label}", ("sft",), arm.config, lambda: base.exists,
                self._alone, base.run, kind=SFT, options=arm.options_about(*_OF_BASES),
                measures=False,
            )
        )  # fmt: skip

    def _training(self, suite: Suite, arm: Arm, base: SuiteTask | None) -> SuiteTask:
        """Training an arm, and measuring it by the same command where this suite measures."""
        policy, run = arm.policy, arm.policy.run
        assert run is not None  # RL leads to one
        if policy.label in self.tasks:
            return self.tasks[policy.label]

        def is_done() -> bool:
            measured = not suite.measured or self._measured(policy, arm.config)
            return run.finished and measured

        words = ("rl", "--measure") if suite.measured else ("rl",)
        task = self._put(
            SuiteTask(
                policy.label, arm.title, words, arm.config, is_done, self._share, run, base,
                kind=RL, options=arm.options, measures=suite.measured,
            )
        )  # fmt: skip
        if suite.measured:
            self._measurements[policy.label, _key(arm.config)] = task
        return task

    def _measurement(self, arm: Arm) -> SuiteTask:
        policy, key = arm.policy, _key(arm.config)
        if (known := self._measurements.get((policy.label, key))) is not None:
            return known
        task = self._evaluation(
            arm, f"{policy.label}-on-{key}", policy.word, EVALUATE,
            lambda: self._measured(policy, arm.config),
        )  # fmt: skip
        self._measurements[policy.label, key] = task
        return task

    def _checkpoints(self, arm: Arm) -> SuiteTask:
        run = arm.policy.run
        assert run is not None  # RL leads to one
        return self._evaluation(
            arm, f"{run.id}-checkpoints-{_key(arm.config)}", f"{run.id}@all", CHECKPOINTS,
            lambda: self._stored.checkpoints_are_measured(run, arm.config),
        )  # fmt: skip

    def _look(self, arm: Arm) -> SuiteTask:
        """`sage guide show` of a method's first training."""
        run = arm.policy.run
        assert run is not None  # RL leads to one
        words = ("guide", "show", run.id, "--limit", str(LOOKED_AT), "--keep")
        return self._put(
            SuiteTask(
                f"{run.id}-guide", f"guide of {arm.label}", words, arm.config,
                lambda: run.guide.is_file(), self._share, needs=self.tasks[run.id],
                kind=GUIDE, options=(), measures=False,
            )
        )  # fmt: skip

    def _evaluation(
        self, arm: Arm, name: str, of: str, kind: str, done: Callable[[], bool]
    ) -> SuiteTask:
        """`sage eval` of a policy, or of a run's checkpoints."""
        benchmarks = arm.config.evaluation.benchmark
        return self._put(
            SuiteTask(
                name, f"{of} on {benchmarks}", ("eval", of), arm.config, done, self._share,
                needs=self.tasks.get(arm.policy.label),
                kind=kind, options=arm.options_about(*_OF_MEASUREMENTS), measures=True,
            )
        )  # fmt: skip

    def _measured(self, policy: Policy, config: SageConfig) -> bool:
        return self._stored.measured(policy, config) is not None

    def _put(self, task: SuiteTask) -> SuiteTask:
        task.options = (*task.options, *self._everywhere)
        return self.tasks.setdefault(task.name, task)


def _key(config: SageConfig) -> str:
    """Eight digits of which samples are drawn of a policy and how they are graded."""
    recipe = EvaluationRecipe.of(config)
    drawn = recipe.evaluation.model_dump(mode="json", include=set(_DRAWN))
    settings = [drawn, recipe.sampling.determinants(), recipe.grading.determinants()]
    return identity_of("measurement", {"settings": settings})[:8]
