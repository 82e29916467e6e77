"""What is stored of a suite's trials: each replicate's counts, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.metrics import Counts, Side, pooled
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.metrics.counts import SeedCounts
from sage_cli.models.compatibility import training_seed
from sage_cli.models.facts import state
from sage_cli.models.shipped_base import shipped_source
from sage_cli.problems.registry import shown_name
from sage_cli.reports.passk import powers_of_two
from sage_cli.settings.k_values import parse_ks
from sage_cli.store.evaluations import evaluation_figures, name_in
from sage_cli.store.files import replacing
from sage_cli.trials.stored_results import BenchmarkCache, MeasuredSeeds, stored_results
from sage_cli.trials.suites.declaration import Suite, shown_label
from sage_cli.trials.suites.plan import Part
from sage_cli.trials.trial import Replicate, Trial


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A trial with the measurement of each measured replicate; `why` says why others have none."""

    trial: Trial
    measured: Sequence[MeasuredSeeds]
    why: str | None = None
    seeds: Sequence[TrainingSeed | None] = ()
    """What each measured training run began with."""

    @property
    def label(self) -> str:
        """The method's label in the suite."""
        return self.trial.label

    @property
    def name(self) -> str:
        """The method's name in a report."""
        return shown_label(self.label)

    @property
    def shown(self) -> str:
        """The name, and what is missing."""
        if self.why is None:
            return self.name
        seeds = len(self.trial.replicates)
        counted = f"{len(self.measured)} of {seeds} seeds; " if self.measured else ""
        return f"{self.name} ({counted}{self.why})"

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks on which it was measured."""
        return tuple(self.measured[0]) if self.measured else ()

    @property
    def measurements(self) -> list[SeedCounts]:
        """Every measurement: by replicate, benchmark and evaluation seed."""
        return [
            measurement
            for by_benchmark in self.measured
            for seeds in by_benchmark.values()
            for measurement in seeds
        ]

    def side(self, benchmark: str) -> Side:
        """Its models on a benchmark, one for each replicate."""
        runs = tuple([measurement.counts for measurement in by[benchmark]] for by in self.measured)
        return Side(self.label, runs, base=self.trial.is_initial, seeds=tuple(self.seeds))

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
        return [method for method in self.methods if method.measured]

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
        return next((method for method in self.there if method.trial.is_initial), None)

    def method(self, label: str) -> MethodResult | None:
        """The measured method of that label, or the one that equals it."""
        same_label = self.same.get(label, label)
        return next((method for method in self.there if method.label == same_label), None)


def results(part: Part, benchmarks: BenchmarkCache, failures: Mapping[str, str]) -> PartResult:
    """The stored results of a suite; `failures` says by task why it was given up."""
    methods = [
        _result(trial, part.suite, benchmarks, failures)
        for trial in part.trials
        if trial.label not in part.same
    ]
    return PartResult(part.suite, methods, part.same)


def _result(
    trial: Trial, suite: Suite, benchmarks: BenchmarkCache, failures: Mapping[str, str]
) -> MethodResult:
    all_measured, missing, seeds = [], [], []
    for replicate in trial.replicates:
        try:
            measured = (
                stored_results(replicate.policy, replicate.config, benchmarks)
                if suite.measured
                else None
            )
        except SageError as error:
            missing.append(error.cause)
            continue
        if measured is not None:
            all_measured.append(measured)
            seeds.append(training_seed(replicate.policy))
        elif suite.measured or not replicate.policy.exists:
            check_suite_settings(replicate)
            missing.append(_why(replicate, failures))
    return MethodResult(trial, all_measured, missing[0] if missing else None, seeds)


def _why(replicate: Replicate, failures: Mapping[str, str]) -> str:
    policy = replicate.policy
    for name in (policy.label, replicate.initial.label):
        if name in failures and not policy.exists:
            return failures[name]
    measured = [why for name, why in failures.items() if name.startswith(f"{policy.label}-on-")]
    if measured:
        return measured[0]
    if policy.run is None or policy.run.is_finished() or shipped_source(policy.run) is not None:
        return "not measured yet"
    return state(policy.run)


def check_suite_settings(replicate: Replicate) -> None:
    """Raise ConfigurationError if a run was measured with other settings than the suite's.

    Fewer samples or seeds are not another setting: they count, and the rest is sampled.
    """
    run, config = replicate.policy.run, replicate.config
    if run is None or not run.is_finished():
        return
    figures = evaluation_figures(run)
    expected = {"temperature": config.sampling.temperature, "grading": config.grading.mode}
    for benchmark in map(str.strip, config.evaluation.benchmark.split(",")):
        name = name_in(figures, shown_name(benchmark, config.data))
        recorded = {
            key: figures.get(f"eval/{name}/{key}", value) for key, value in expected.items()
        }
        differing = [
            f"{key} {recorded[key]} instead of {value}"
            for key, value in expected.items()
            if recorded[key] != value
        ]
        if differing:
            raise ConfigurationError(
                f"the samples of {replicate.title} on {benchmark} are of other settings than the "
                f"suite's: {', '.join(differing)}",
                "`sage suite run` samples with the suite's own; or give the suite those settings "
                "with --set",
            )


def write_counts(part_results: Sequence[PartResult], file: Path) -> None:
    """Write all counts of suites as Parquet: one row per policy, evaluation seed and problem.

    `c` of `n` samples are correct; `seed` numbers the trainings of a method from 1.
    """
    import pyarrow as pa  # a dry run needs neither
    import pyarrow.parquet as pq

    texts = ("suite", "method", "policy", "benchmark", "problem")
    numbers = ("seed", "evaluation_seed", "n", "c")
    schema = pa.schema([(x, pa.string()) for x in texts] + [(x, pa.int32()) for x in numbers])
    rows = [row for result in part_results for row in _counts(result)]
    with replacing(file) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema), temporary, compression="zstd")


def _counts(result: PartResult) -> Iterator[dict[str, str | int]]:
    for method in result.there:
        seeds = {
            replicate.policy.label: replicate.seed + 1 for replicate in method.trial.replicates
        }
        for measured in method.measurements:
            about: dict[str, str | int] = {
                "suite": result.suite.name,
                "method": method.label,
                "policy": measured.policy,
                "benchmark": measured.benchmark,
                "seed": seeds[measured.policy],
                "evaluation_seed": measured.seed,
            }
            counts = measured.counts
            for problem, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True):
                yield {**about, "problem": problem, "n": int(n), "c": int(c)}
