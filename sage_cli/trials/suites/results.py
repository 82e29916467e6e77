"""The results of a suite's trials: their measurements, or why there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.metrics import Counts, Side, parse_ks, pooled
from sage_cli.models.planned import state
from sage_cli.reports.passk import powers_of_two
from sage_cli.store.files import replacing
from sage_cli.store.run import evaluation_figures, name_in
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.trials import Part
from sage_cli.trials.task import Measurements, Replicate, StoredMeasurements, Trial

Pair = tuple[str, str]
"""The labels of two methods: the first less the second."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A trial with the measurement of each measured replicate; `why` says why others have none."""

    trial: Trial
    measured: Sequence[Measurements]
    why: str | None = None

    @property
    def label(self) -> str:
        """The method's name."""
        return self.trial.label

    @property
    def replicates(self) -> Sequence[Replicate]:
        """The replicates of its trial."""
        return self.trial.replicates

    @property
    def shown(self) -> str:
        """The label, and what is missing."""
        if self.why is None:
            return self.label
        seeds = len(self.trial.replicates)
        there = f"{len(self.measured)} of {seeds} seeds; " if self.measured else ""
        return f"{self.label} ({there}{self.why})"

    @property
    def is_base(self) -> bool:
        """Return True if it is the initial policy, and no trained method."""
        return self.trial.is_initial

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks on which it was measured."""
        return tuple(self.measured[0]) if self.measured else ()

    def side(self, benchmark: str) -> Side:
        """Its models on a benchmark, one for each replicate."""
        runs = tuple([one.counts for one in by[benchmark]] for by in self.measured)
        return Side(self.label, runs, base=self.is_base)

    def spread(self, benchmark: str) -> list[Counts]:
        """The counts over which deviations are computed: replicates, or else evaluation seeds."""
        runs = self.side(benchmark).runs
        return [pooled(run) for run in runs] if len(runs) > 1 else list(runs[0])


@dataclass(frozen=True, eq=False)
class PartResult:
    """The results of a suite's methods, without those that equal another under this model."""

    suite: Suite
    methods: Sequence[MethodResult]
    same: Mapping[str, str]
    """Label -> the method with the same policies."""

    @cached_property
    def there(self) -> list[MethodResult]:
        """The methods with measurements."""
        return [one for one in self.methods if one.measured]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks on which methods were measured."""
        return self.there[0].benchmarks if self.there else ()

    @property
    def ks(self) -> tuple[int, ...]:
        """The values of k that are shown."""
        evaluation = self.methods[0].trial.config.evaluation
        return tuple(powers_of_two(parse_ks(evaluation.k, evaluation.samples)))

    @property
    def base(self) -> MethodResult | None:
        """The result of the initial policy, if it was measured."""
        return next((one for one in self.there if one.is_base), None)

    def method(self, label: str) -> MethodResult | None:
        """The measured method of that label, or the one that equals it."""
        wanted = self.same.get(label, label)
        return next((one for one in self.there if one.label == wanted), None)


def results(part: Part, stored: StoredMeasurements, failures: Mapping[str, str]) -> PartResult:
    """The stored results of a suite; `failures` says by task why it was given up."""
    methods = [
        _result(trial, part.suite, stored, failures)
        for trial in part.trials
        if trial.label not in part.same
    ]
    return PartResult(part.suite, methods, part.same)


def _result(
    trial: Trial, suite: Suite, stored: StoredMeasurements, failures: Mapping[str, str]
) -> MethodResult:
    found, missing = [], []
    for one in trial.replicates:
        try:
            measured = stored.measured(one.policy, one.config) if suite.measured else None
        except SageError as error:
            missing.append(error.cause)
            continue
        if measured is not None:
            found.append(measured)
        elif suite.measured or not one.policy.exists:
            refuse_other_settings(one)
            missing.append(_why(one, failures))
    return MethodResult(trial, found, missing[0] if missing else None)


def _why(one: Replicate, failures: Mapping[str, str]) -> str:
    policy = one.policy
    for name in (policy.label, one.initial.label):
        if name in failures and not policy.exists:
            return failures[name]
    measured = [why for name, why in failures.items() if name.startswith(f"{policy.label}-on-")]
    if measured:
        return measured[0]
    if policy.run is None or policy.run.finished:
        return "not measured yet"
    return state(policy.run)


def refuse_other_settings(one: Replicate) -> None:
    """Raise ConfigurationError if a run was measured with other settings than the suite's.

    Fewer samples or seeds are no other setting: they count, and the rest is sampled.
    """
    run, config = one.policy.run, one.config
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
                f"the samples of {one.title} on {benchmark} are of other settings than the "
                f"suite's: {', '.join(differing)}",
                "`sage suite run` samples with the suite's own; or give the suite those settings "
                "with --set",
            )


def write_counts(found: Sequence[PartResult], file: Path) -> None:
    """Write all counts of suites as Parquet: one row per policy, evaluation seed and problem.

    `c` of `n` samples are right; `seed` numbers the trainings of a method from 1.
    """
    import pyarrow as pa  # a dry run needs neither
    import pyarrow.parquet as pq

    texts = ("suite", "method", "policy", "benchmark", "problem")
    numbers = ("seed", "evaluation_seed", "n", "c")
    schema = pa.schema([(x, pa.string()) for x in texts] + [(x, pa.int32()) for x in numbers])
    rows = [row for result in found for row in _counts(result)]
    with replacing(file) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema), temporary, compression="zstd")


def _counts(result: PartResult) -> Iterator[dict[str, str | int]]:
    for method in result.there:
        seeds = {one.policy.label: one.seed + 1 for one in method.replicates}
        for measured in (one for by in method.measured for every in by.values() for one in every):
            place: dict[str, str | int] = {
                "suite": result.suite.name, "method": method.label, "policy": measured.policy,
                "benchmark": measured.benchmark, "seed": seeds[measured.policy],
                "evaluation_seed": measured.seed,
            }  # fmt: skip
            counts = measured.counts
            for problem, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True):
                yield {**place, "problem": problem, "n": int(n), "c": int(c)}
