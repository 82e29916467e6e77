"""An evaluation of policies on benchmarks, with its record in their runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import Benchmark, check_benchmark_named, load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import Measurements, measure
from sage_cli.evaluation.stored_grades import missing
from sage_cli.metrics import powers_up_to
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.models.facts import evaluation_facts
from sage_cli.models.memory_estimates import sampling_memory
from sage_cli.models.policy import Policy, known_sampling
from sage_cli.models.stages import Described, Stage
from sage_cli.problems.source_errors import reading
from sage_cli.progress import Progress
from sage_cli.reports.document import report_folder
from sage_cli.reports.provenance import (
    BenchmarkUsed,
    GraderUsed,
    PolicyUsed,
    Provenance,
    SamplesUsed,
)
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.k_values import parse_ks
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.file_names import file_stems
from sage_cli.store.locks import writer
from sage_cli.store.mirrors import Follower, mirrors_of
from sage_cli.store.result_hash import identity_of
from sage_cli.store.surroundings import surroundings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of policies, which need not exist yet. Its benchmarks are read once."""

    config: SageConfig

    @cached_property
    def ks(self) -> tuple[int, ...]:
        """The values of k to report; ConfigurationError where one is above the samples."""
        return parse_ks(self.config.evaluation.k, self.config.evaluation.samples)

    @cached_property
    def benchmarks(self) -> Sequence[Benchmark]:
        """The problems to measure on; DataError where a gold's own judge does not accept it."""
        config = self.config
        check_benchmark_named(config, "evaluation.benchmark")
        with reading(config, "evaluation"):
            return load_benchmarks(config.evaluation, config.data, config.grading.judge)

    def require(self) -> None:
        """Raise what is wrong with benchmarks or ks, before anything is trained."""
        _ = self.ks, self.benchmarks

    def measure(
        self,
        policies: Sequence[Policy],
        progress: Progress,
        mirrors: Sequence[Follower] = (),
        *,
        record: bool = True,
    ) -> Evaluated:
        """Measure every policy on every benchmark, and record the figures with the policies' runs.

        Stored samples and grades are used again. `mirrors` are those of the one policy's run, where
        they are open already. Without `record` nothing is written but samples and grades.
        """
        config = self.config
        samples = [
            PolicySamples.from_config(policy, config, config.run.root) for policy in policies
        ]
        for policy in policies:
            with progress.doing(f"hashing the weights of {policy.label}"):
                policy.fingerprint  # noqa: B018  kept once it is known
        measured = measure(samples, self.benchmarks, config, progress)
        if record:
            record_evaluations(policies, self.benchmarks, measured, config, mirrors)
        return Evaluated(self, samples, measured)


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation measured, by (benchmark, policy's label), on which samples."""

    evaluation: Evaluation
    samples: Sequence[PolicySamples]
    measured: Measurements

    @cached_property
    def provenance(self) -> Provenance:
        """The sources of the numbers: models, benchmarks, samples, graders."""
        return provenance_of(self.samples, self.evaluation.benchmarks, self.evaluation.config)


@dataclass(frozen=True)
class EvaluationStage(Stage):
    """The plan of an evaluation of policies."""

    evaluation: Evaluation
    policies: Sequence[Policy]

    def describe(self) -> Described:
        """Describe the evaluation, and for each policy and benchmark which samples are stored."""
        config = self.evaluation.config
        rows = missing(self.policies, self.evaluation.benchmarks, config, config.run.root)
        stored = {
            f"{row.policy} on {row.benchmark}": f"{row.needed - row.stored:,} of {row.needed:,} "
            f"to sample, {row.needed - row.graded:,} to grade"
            + (f" (samples/{', '.join(row.sample_sets)})" if row.sample_sets else "")
            for row in rows
        }
        if not self.policies:
            stored["models"] = "no run is stored yet; `sage rl` trains one"
        return Described("measure", {**evaluation_facts(config), **stored})

    def memory(self, gpu_gb: int) -> Described:
        """Describe the memory that sampling takes."""
        return sampling_memory(self.evaluation.config, gpu_gb)


def record_evaluations(
    policies: Sequence[Policy],
    benchmarks: Sequence[Benchmark],
    measured: Measurements,
    config: SageConfig,
    mirrors: Sequence[Follower] = (),
) -> None:
    """Record what was measured of runs' final models in the runs' folders.

    Checkpoints and models that came from no run are passed over. The mirrors of a run whose figures
    are new show them: `mirrors`, where those of the one policy's run are open already. Never raises
    for a folder that can't be written: the report is elsewhere.
    """
    content = {benchmark.name: benchmark.content for benchmark in benchmarks}
    for policy in policies:
        run = policy.run
        if run is None or policy.checkpoint is not None:
            continue
        try:
            with writer(run.folder):
                own: dict[str, Any] = {}
                if policy.imported:  # it was sampled under settings of its own
                    own["temperature"] = known_sampling(run).get("temperature")
                changed = [
                    record_evaluation(
                        run, benchmark, figures(seeds, config) | own, content.get(benchmark)
                    )
                    for (benchmark, label), seeds in measured.items()
                    if label == policy.label
                ]
                for mirror in (mirrors or mirrors_of(config.tracking, run)) if any(changed) else ():
                    mirror.show_evaluations()
        except (OSError, StoreError) as error:
            log.warning("%s doesn't keep what was measured: %s", run.id, error)


def figures(seeds: Sequence[SeedCounts], config: SageConfig) -> dict[str, Any]:
    """Mean pass@k at the powers of two, and how it was measured."""
    n = config.evaluation.samples
    ks = powers_up_to(n)
    mean_K = pass_matrix([seed.counts for seed in seeds], ks).mean(axis=0)
    return {
        **{f"pass@{k}": float(mean) for k, mean in zip(ks, mean_K, strict=True)},
        "problems": len(seeds[0].counts),
        "samples": n,
        "seeds": len(seeds),
        "temperature": config.sampling.temperature,
        "grading": IMPORTED_JUDGE
        if config.grading.judge == IMPORTED_JUDGE
        else config.grading.mode,
    }


def evaluation_folder(kind: str, evaluated: Evaluated) -> Path:
    """The folder of a report, named by sample sets, by settings of evaluation and grading, and by
    the policies as the report calls them: two runs of equal weights share their samples."""
    config = evaluated.evaluation.config
    sets = [
        (policy, seed.sample_set)
        for (_, policy), seeds in evaluated.measured.items()
        for seed in seeds
    ]
    settings = [config.evaluation.determinants(), config.grading.determinants()]
    identity = identity_of(kind, {"sets": sets, "settings": settings})
    benchmarks = file_stems(
        dict.fromkeys(benchmark for benchmark, _ in evaluated.measured)
    ).values()
    return report_folder(config.run.root, f"{kind}-{'-'.join(benchmarks)}-{identity[:8]}")


def provenance_of(
    samples: Sequence[PolicySamples], benchmarks: Sequence[Benchmark], config: SageConfig
) -> Provenance:
    """Models by weights, benchmarks by content, sample sets by key, and how all was graded."""
    evaluation = config.evaluation
    seeds = tuple(range(evaluation.seed, evaluation.seed + evaluation.seeds))
    sets = {
        stored.identity.key: SamplesUsed(
            stored.identity.key, source.policy.label, seed, stored.identity.template, stored.engine
        )
        for source in samples
        for seed in seeds
        for stored in [source.at(seed)]
    }
    configured = configured_provenance(benchmarks, config)
    runs = [source.policy.run for source in samples if source.policy.imported]
    if runs and len(runs) == len(samples):  # what is configured is not how they were sampled
        settings = [known_sampling(run) for run in runs if run is not None]
        alike = all(others == settings[0] for others in settings)
        configured = replace(configured, sampling=settings[0] if alike else None)
    return replace(
        configured,
        policies=tuple(_policy(source.policy) for source in samples),
        samples=tuple(sets.values()),
        seeds=seeds,
    )


def configured_provenance(benchmarks: Sequence[Benchmark], config: SageConfig) -> Provenance:
    """The part that doesn't depend on which policies are measured."""
    return replace(
        Provenance.here(surroundings()),
        benchmarks=tuple(
            BenchmarkUsed(
                benchmark.name,
                len(benchmark.problems),
                tuple(benchmark.origins) or None,
                _grader(benchmark, config),
            )
            for benchmark in benchmarks
        ),
        sampling=config.sampling.model_dump(mode="json", exclude={"servers"}),
        n=config.evaluation.samples,
    )


def _policy(policy: Policy) -> PolicyUsed:
    run = policy.run
    parent = run.read_manifest().get("parent") if run else None
    base = str(parent) if parent else None
    return PolicyUsed(policy.label, policy.place, policy.fingerprint, run.id if run else None, base)


def _grader(benchmark: Benchmark, config: SageConfig) -> GraderUsed:
    with benchmark.grader(config.grading, config.prompt) as grader:
        used = grader.identity
    mode = IMPORTED_JUDGE if used.judge == IMPORTED_JUDGE else used.mode
    return GraderUsed(mode, used.judge, used.tolerance, used.version)
