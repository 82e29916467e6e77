"""An evaluation of policies on benchmarks, its records in their runs, its provenance.

The models that a command names are measured and reported: curves, tables, temperatures.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks, refuse_unnamed
from sage_cli.evaluation.samples import Measurements, PolicySamples, measure, missing, stored_counts
from sage_cli.metrics import curve, curve_ks, powers_up_to
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals import Resampling, pass_matrix
from sage_cli.models.memory import sampling_memory
from sage_cli.models.planned import Described, Stage, evaluation_facts
from sage_cli.models.policy import Labels, Policy, chosen_policies, known_sampling, named_policy
from sage_cli.problems.source_errors import reading
from sage_cli.progress import Progress
from sage_cli.reports.document import (
    BenchmarkUsed,
    GraderUsed,
    PolicyUsed,
    Provenance,
    Report,
    SamplesUsed,
    SeedCounts,
    report_folder,
)
from sage_cli.reports.passk import (
    Line,
    OverTemperatures,
    evaluation_document,
    over_temperatures_document,
    passk_document,
)
from sage_cli.reports.published import published_scores
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.sampling import parse_ks
from sage_cli.store.files import file_stems, identity_of, key_of
from sage_cli.store.locks import writer
from sage_cli.store.mirrors import Follower, mirrors_of
from sage_cli.store.run import Runs, record_evaluation, surroundings

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
        """The problems to measure on; DataError where a gold is not right by its own judge."""
        config = self.config
        refuse_unnamed(config, "evaluation.benchmark")
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
    base = str(run.manifest["parent"]) if run and run.manifest.get("parent") else None
    return PolicyUsed(policy.label, policy.place, policy.fingerprint, run.id if run else None, base)


def _grader(benchmark: Benchmark, config: SageConfig) -> GraderUsed:
    with benchmark.grader(config.grading, config.prompt) as grader:
        used = grader.identity
    mode = IMPORTED_JUDGE if used.judge == IMPORTED_JUDGE else used.mode
    return GraderUsed(mode, used.judge, used.tolerance, used.version)


def over_temperatures(
    evaluation: Evaluation,
    policies: Sequence[Policy],
    temperatures: Sequence[float],
    progress: Progress,
    initial: Policy | None = None,
) -> OverTemperatures:
    """Measure policies at the evaluation's temperature and at these; what is stored is kept.

    `initial` is their initial policy, measured at the evaluation's temperature alone. pass@1 is
    among the ks. Raises ConfigurationError where there is one temperature alone.
    """
    configured = evaluation.config.sampling.temperature
    grid = temperature_grid(evaluation, temperatures)
    ks = tuple(dict.fromkeys((1, *evaluation.ks)))
    evaluated = [_measured_at(temperature, evaluation, policies, progress) for temperature in grid]
    passed = {
        key: np.stack(
            [pass_matrix([seed.counts for seed in at.measured[key]], ks) for at in evaluated]
        )
        for key in evaluated[0].measured
    }
    samples = [sample_set for at in evaluated for sample_set in at.provenance.samples or ()]
    provenance = replace(evaluated[0].provenance, samples=tuple(samples))
    sampling = {k: v for k, v in (provenance.sampling or {}).items() if k != "temperature"}
    provenance = replace(provenance, sampling=sampling)
    initial_P = {} if initial is None else _accuracy(evaluation.measure([initial], progress))
    return OverTemperatures(passed, grid, grid.index(configured), ks, provenance, initial_P)


def temperature_grid(evaluation: Evaluation, temperatures: Sequence[float]) -> tuple[float, ...]:
    """Return these temperatures and the evaluation's, ascending.

    Raises ConfigurationError where that is one temperature alone.
    """
    configured = evaluation.config.sampling.temperature
    grid = tuple(sorted({configured, *temperatures}))
    if len(grid) < 2:
        raise ConfigurationError(
            f"a curve needs several temperatures, and only {configured:g} was given",
            "give at least two, for example --temperature 0.8,1,1.2; each is sampled",
        )
    return grid


def at_temperature(temperature: float, evaluation: Evaluation) -> Evaluation:
    """Return the same evaluation with completions sampled at another temperature."""
    config = evaluation.config
    sampling = config.sampling.model_copy(update={"temperature": temperature})
    return replace(evaluation, config=config.model_copy(update={"sampling": sampling}))


def _accuracy(evaluated: Evaluated) -> dict[str, FloatArray]:
    """Return the pass@1 of one policy on each problem, by benchmark."""
    return {
        benchmark: pass_matrix([seed.counts for seed in seeds], (1,))[:, 0]
        for (benchmark, _), seeds in evaluated.measured.items()
    }


def _measured_at(
    temperature: float, evaluation: Evaluation, policies: Sequence[Policy], progress: Progress
) -> Evaluated:
    """Measure at a temperature. Only figures at the configured one are recorded with runs."""
    if temperature == evaluation.config.sampling.temperature:
        return evaluation.measure(policies, progress)
    progress.say(f"at temperature {temperature:g}")
    return at_temperature(temperature, evaluation).measure(policies, progress, record=False)


@dataclass(frozen=True)
class NamedModels:
    """The models called `names`, or without names the latest run, and how they are measured.

    `labels` are what tables and figures call a model, by the name that was typed.
    """

    evaluation: Evaluation
    names: Sequence[str]
    labels: Labels = field(default_factory=dict)

    @property
    def policies(self) -> list[Policy]:
        """The policies; without names the latest run's. Raises StoreError where there is none."""
        config = self.evaluation.config
        return chosen_policies(self.names, Runs(config.run.root), config.model, self.labels)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command: an evaluation, of nothing where there is no run yet."""
        return self.stages_at(())

    def stages_at(self, temperatures: Sequence[float]) -> list[Stage]:
        """Return an evaluation at each temperature; without any, at the configured one.

        Raises ConfigurationError where they give one temperature alone.
        """
        is_any = self.names or Runs(self.evaluation.config.run.root).latest()
        policies = self.policies if is_any else []
        if not temperatures:
            return [EvaluationStage(self.evaluation, policies)]
        grid = temperature_grid(self.evaluation, temperatures)
        return [EvaluationStage(at_temperature(t, self.evaluation), policies) for t in grid]

    def measure(self, progress: Progress) -> Evaluated:
        """Measure the policies. What is wrong with benchmarks or ks is raised before that."""
        _ = self.evaluation.ks
        with progress.doing(f"reading {self.evaluation.config.evaluation.benchmark}"):
            _ = self.evaluation.benchmarks
        policies = self.policies
        if not self.names:
            progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
        return self.evaluation.measure(policies, progress)


def measure_passk(
    models: NamedModels,
    progress: Progress,
    second: str | None = None,
    guess: str | None = None,
) -> Report:
    """Measure every named run or model.

    Curves are computed at all ks; `evaluation.k` says which of them the table shows. `second` is
    a judge of texts: each model has a second curve, of the samples that both find right. `guess` is
    a function or a file whose guesses stand beside the models.
    """
    from sage_cli.evaluation.guess import guess_curve, guess_label
    from sage_cli.evaluation.text_judges import judged_again, text_judges

    judges = [] if second is None else text_judges(second, models.evaluation)
    evaluated = models.measure(progress)
    again = judged_again(evaluated, judges, progress) if judges else {}
    ks, evaluation = models.evaluation.ks, models.evaluation.config.evaluation
    curve_at = curve_ks(evaluation.samples, ks)
    resampling = Resampling(evaluation.confidence, evaluation.bootstrap)
    measured = dict(evaluated.measured)
    for (benchmark, _), seeds in again.items():
        measured[benchmark, seeds[0].policy] = seeds
    with progress.doing("computing curves and writing the report"):
        lines = [
            Line(
                policy,
                benchmark,
                curve([seed.counts for seed in seeds], curve_at, resampling),
                seeds,
            )
            for (benchmark, policy), seeds in measured.items()
        ]
        if guess is not None:
            lines += [
                Line(guess_label(guess), b.name, guess_curve(guess, b.problems, curve_at))
                for b in models.evaluation.benchmarks
            ]
        document = passk_document(lines, evaluated.provenance, ks)
        by = "".join(f"-{key_of(judge.identity)}" for _, judge in judges)
        return document.write(evaluation_folder(f"passk{by[:9]}", evaluated))


def measure_table(
    models: NamedModels, progress: Progress, *, paper: str | None = None, k_samples: bool = False
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside.

    With `paper` or `k_samples` the same samples are also evaluated as the paper's were, pass@k from
    the first k of each problem.
    """
    evaluation = models.evaluation
    ks, config = evaluation.ks, evaluation.config
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    evaluated = models.measure(progress)
    as_published = {
        (benchmark.name, samples.policy.label): stored_counts(
            samples.policy, benchmark, config, config.run.root, ks
        )
        for benchmark in (evaluation.benchmarks if paper or k_samples else ())
        for samples in evaluated.samples
    }
    document = evaluation_document(
        evaluated.measured, ks, evaluated.provenance, paper, as_published
    )
    with progress.doing("writing the report"):
        return document.write(evaluation_folder("eval", evaluated))


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Return the temperatures of `0.8,1,1.2`. Raises ConfigurationError for anything else."""
    try:
        temperatures = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        temperatures = ()
    if 0 in temperatures:
        raise ConfigurationError(
            f"--temperature {text}: at temperature 0 all completions of a problem are the same, so "
            "that there is no curve over k",
            "measure greedy decoding by itself: --n 1 --k 1 --set sampling.temperature=0",
        )
    if not temperatures or not all(0 < temperature < 100 for temperature in temperatures):
        raise ConfigurationError(
            f"--temperature {text}: temperatures are numbers above 0",
            "separate them with commas, for example --temperature 0.8,1,1.2",
        )
    return temperatures


def measure_over_temperatures(
    models: NamedModels, temperatures: Sequence[float], progress: Progress
) -> Report:
    """Measure the named models at each temperature, and compare them at equal pass@1."""
    evaluation, policies = models.evaluation, models.policies
    with progress.doing(f"reading {evaluation.config.evaluation.benchmark}"):
        _ = evaluation.benchmarks
    config = evaluation.config
    runs = Runs(config.run.root)
    parents = {policy.run.known.get("parent") for policy in policies if policy.run} - {None}
    initial = named_policy(str(*parents), runs, config.model) if len(parents) == 1 else None
    initial = initial if initial and initial.is_here else None  # it may have been deleted
    curves = over_temperatures(evaluation, policies, temperatures, progress, initial)
    settings = config.evaluation
    with progress.doing("comparing, and writing the report"):
        resampling = Resampling(settings.confidence, settings.bootstrap)
        document = over_temperatures_document(curves, resampling)
        identity = identity_of(
            "temperatures",
            {
                "policies": [policy.fingerprint for policy in policies],
                "settings": settings.determinants(),
                "temperatures": curves.temperatures,
            },
        )
        stem = "-".join(dict.fromkeys(name for name, _ in curves.passed))
        folder = report_folder(config.run.root, f"temperatures-{stem}-{identity[:8]}")
        return document.write(folder)
