"""What became of a suite's methods: their measurements, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.metrics import Counts, Side, parse_ks, pooled
from sage_cli.models.policies.planned import state
from sage_cli.reports.passk import powers_of_two
from sage_cli.store.runs.evaluations import evaluation_figures, name_in
from sage_cli.suite.arms import Arm
from sage_cli.suite.declaration import Suite
from sage_cli.suite.plan import Part, Plan
from sage_cli.suite.stored import ByBenchmark

Pair = tuple[str, str]
"""The labels of two methods: the first less the second."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A method's arms, and the measurement of each that is measured; `why` the others aren't."""

    label: str
    arms: Sequence[Arm]
    measured: Sequence[ByBenchmark]
    why: str | None = None

    @property
    def shown(self) -> str:
        """The label, and what is missing."""
        if self.why is None:
            return self.label
        there = f"{len(self.measured)} of {len(self.arms)} seeds; " if self.measured else ""
        return f"{self.label} ({there}{self.why})"

    @property
    def is_base(self) -> bool:
        """Whether it is what RL begins with, and no training of a method."""
        return self.arms[0].is_base

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The names of what it was measured on."""
        return tuple(self.measured[0]) if self.measured else ()

    def side(self, benchmark: str) -> Side:
        """Its models on a benchmark, one for each training seed."""
        runs = tuple([one.counts for one in by[benchmark]] for by in self.measured)
        return Side(self.label, runs, base=self.is_base)

    def spread(self, benchmark: str) -> list[Counts]:
        """What deviations are over: training seeds where there are several, else evaluation's."""
        runs = self.side(benchmark).runs
        return [pooled(run) for run in runs] if len(runs) > 1 else list(runs[0])


@dataclass(frozen=True, eq=False)
class PartResult:
    """A suite's methods, with those left out that are the same as another under this model."""

    suite: Suite
    methods: Sequence[MethodResult]
    same: Mapping[str, str]
    """Label -> the method that leads to the same policies."""

    @cached_property
    def there(self) -> list[MethodResult]:
        """The methods with measurements."""
        return [one for one in self.methods if one.measured]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """What was measured on."""
        return self.there[0].benchmarks if self.there else ()

    @property
    def ks(self) -> tuple[int, ...]:
        """The ks to be shown."""
        evaluation = self.methods[0].arms[0].config.evaluation
        return tuple(powers_of_two(parse_ks(evaluation.k, evaluation.samples)))

    @property
    def base(self) -> MethodResult | None:
        """The first method that is no training, if it was measured."""
        return next((one for one in self.there if one.is_base), None)

    def method(self, label: str) -> MethodResult | None:
        """The measured method of that label, or the one that is the same."""
        wanted = self.same.get(label, label)
        return next((one for one in self.there if one.label == wanted), None)


def results(part: Part, plan: Plan, failures: Mapping[str, str]) -> PartResult:
    """What the store holds of a suite; `failures` says by task why it was given up."""
    methods = [
        _result(label, arms, part.suite, plan, failures)
        for label, arms in part.by_label.items()
        if label not in part.same
    ]
    return PartResult(part.suite, methods, part.same)


def _result(
    label: str, arms: Sequence[Arm], suite: Suite, plan: Plan, failures: Mapping[str, str]
) -> MethodResult:
    found, missing = [], []
    for arm in arms:
        try:
            measured = plan.stored.measured(arm.policy, arm.config) if suite.measured else None
        except SageError as error:
            missing.append(error.cause)
            continue
        if measured is not None:
            found.append(measured)
        elif suite.measured or not arm.policy.exists:
            refuse_other_settings(arm)
            missing.append(_why(arm, failures))
    return MethodResult(label, arms, found, missing[0] if missing else None)


def _why(arm: Arm, failures: Mapping[str, str]) -> str:
    policy = arm.policy
    for name in (policy.label, arm.base.label):
        if name in failures and not policy.exists:
            return failures[name]
    measured = [why for name, why in failures.items() if name.startswith(f"{policy.label}-on-")]
    if measured:
        return measured[0]
    if policy.run is None or policy.run.finished:
        return "not measured yet"
    return state(policy.run)


def refuse_other_settings(arm: Arm) -> None:
    """Raise ConfigurationError where a run was measured, with other settings than the suite's.

    Fewer samples or seeds are no other setting: what is there counts, and the rest is drawn.
    """
    run, config = arm.policy.run, arm.config
    if run is None or not run.finished:
        return
    figures = evaluation_figures(run)
    wanted = {"temperature": config.sampling.temperature, "grading": config.grading.mode}
    for benchmark in map(str.strip, config.evaluation.benchmark.split(",")):
        name = name_in(figures, benchmark)
        found = {key: figures.get(f"eval/{name}/{key}", value) for key, value in wanted.items()}
        differing = [
            f"{key} {found[key]} instead of {value}"
            for key, value in wanted.items()
            if found[key] != value
        ]
        if differing:
            raise ConfigurationError(
                f"the samples of {arm.title} on {benchmark} are of other settings than the "
                f"suite's: {', '.join(differing)}",
                "`sage suite run` draws the suite's own; or give the suite those settings with "
                "--set",
            )
