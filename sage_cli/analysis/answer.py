"""The answer of an analysis about the models that are named."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli.analysis.analysis import Analysis, Inputs, Options
from sage_cli.analysis.graded_samples import Answers
from sage_cli.analysis.scoring import ModelScorer, scorers
from sage_cli.analysis.selection import (
    chosen_runs,
    find_analysis,
    only,
    options_of,
    trained,
    with_base,
)
from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation, configured_provenance, provenance_of
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import missing
from sage_cli.models.policy import Labels, chosen_policies
from sage_cli.progress import Progress
from sage_cli.reports.document import Document, report_folder
from sage_cli.reports.provenance import Provenance
from sage_cli.settings.analysis import AnalysisOptions
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run, Runs
from sage_cli.store.surroundings import surroundings


@dataclass(frozen=True)
class Analysing:
    """An analysis of the models called `names`; without names of the latest run.

    `labels` are the labels of models in tables and figures, by the typed name.
    """

    analysis: Analysis
    evaluation: Evaluation
    names: Sequence[str]
    request: AnalysisOptions
    options: Options
    labels: Labels

    @classmethod
    def of(
        cls,
        name: str,
        config: SageConfig,
        names: Sequence[str],
        request: AnalysisOptions,
        labels: Labels | None = None,
    ) -> Analysing:
        """Return the analysis called `name` under a configuration.

        Raises ConfigurationError for an unknown name, and for options that it does not use.
        """
        analysis = find_analysis(name)
        options = options_of(analysis, config, request)
        return cls(analysis, Evaluation(config), names, request, options, labels or {})

    @property
    def config(self) -> SageConfig:
        """Return the settings of the samples that are analysed."""
        return self.evaluation.config

    @cached_property
    def benchmarks(self) -> list[Benchmark]:
        """Return the benchmarks, with the problems that were asked for."""
        return only(self.evaluation.benchmarks, self.request.problems)

    @cached_property
    def samples(self) -> list[PolicySamples]:
        """Return the samples of the named policies, after the base if one is needed or named."""
        config, base = self.config, self.request.base
        runs = Runs(config.run.root)
        policies = chosen_policies(self.names, runs, config.model, self.labels)
        if self.analysis.base or base is not None:
            policies = with_base(policies, base, runs, config.model, self.labels)
        return [PolicySamples.from_config(policy, config, runs.root) for policy in policies]


def answer(asked: Analysing, progress: Progress) -> tuple[Document, Path]:
    """Return the analysis's document, and the folder of its report."""
    analysis, config, root = asked.analysis, asked.config, asked.config.run.root
    if analysis.records:
        runs = chosen_runs(asked.names, Runs(root), asked.labels)
        with progress.doing(f"reading {config.evaluation.benchmark}"):
            inputs = _of_records(asked, runs, progress)
        content: Any = {label: run.read_identity() or run.id for label, run in runs.items()}
    else:
        with progress.doing(f"reading {config.evaluation.benchmark}"):
            benchmarks = asked.benchmarks
        inputs = _of_samples(asked, progress)
        content = [asdict(sample_set) for sample_set in inputs.provenance.samples or ()]
        content += [[problem.id for problem in benchmark.problems] for benchmark in benchmarks]
    settings = [config.evaluation, config.grading]
    decisive = [*(section.determinants() for section in settings), repr(asked.options)]
    identity = identity_of(f"analyze-{analysis.name}", [content, decisive])
    about = inputs.answers or [run.run for run in inputs.trained.values()]
    stems = "-".join(dict.fromkeys(Path(name).stem for name in about))
    folder = report_folder(root, f"analyze-{analysis.name}-{stems[:80]}-{identity[:8]}")
    with progress.doing(f"computing {analysis.name}"):
        return replace(analysis.compute(inputs), provenance=inputs.provenance), folder


def _of_records(asked: Analysing, runs: Mapping[str, Run], progress: Progress) -> Inputs:
    """Return training records, with measured checkpoints if the benchmarks are available."""
    benchmarks: Sequence[Benchmark] = []
    provenance = Provenance.here(surroundings())
    try:
        benchmarks = asked.evaluation.benchmarks
        provenance = configured_provenance(benchmarks, asked.config)
    except DataError as error:
        progress.say(f"training reward is shown without pass@1 beside it: {error.cause}")
    records = {label: trained(run, benchmarks, asked.config) for label, run in runs.items()}
    return Inputs(trained=records, options=asked.options, provenance=provenance)


def _of_samples(asked: Analysing, progress: Progress) -> Inputs:
    """Return policies' answers, with a model's scores if the analysis needs them."""
    config, kind = asked.config, asked.analysis.scorer
    with progress.doing("looking for stored samples"):
        _require_samples(asked)
    answers: dict[str, list[Answers]] = {benchmark.name: [] for benchmark in asked.benchmarks}
    for samples, scorer in scorers(kind, asked.samples, config, progress):
        for benchmark in asked.benchmarks:
            with progress.doing(f"reading samples of {samples.policy.label} on {benchmark.name}"):
                own = Answers.from_samples(samples, benchmark, config)
            if scorer is not None:
                own = scorer.score(own, samples)
            answers[benchmark.name].append(own)
    base, reading = asked.samples[0], asked.analysis.readers
    # the models that read the base's samples at temperature 1, the base first
    if reading is None or (reading == "all if survival" and not asked.options.survival):
        scored = []
    else:
        scored = asked.samples[:1] if reading == "base" else asked.samples
    readers = [ModelScorer(samples, 1.0, config, progress) for samples in scored]
    return Inputs(
        answers={name: tuple(of) for name, of in answers.items()},
        readings={
            name: tuple(reader.score(of[0], base) for reader in readers)
            for name, of in answers.items()
        },
        options=asked.options,
        provenance=provenance_of(asked.samples, asked.benchmarks, config),
    )


def _require_samples(asked: Analysing) -> None:
    policies = [own.policy for own in asked.samples]
    lines = [
        f"{row.policy} has {row.graded:,} of {row.needed:,} graded samples on {row.benchmark}"
        for row in missing(policies, asked.benchmarks, asked.config, asked.config.run.root)
        if row.graded < row.needed
    ]
    if lines:
        words = shlex.join(["sage", "passk", *(policy.word for policy in policies)])
        raise StoreError(
            "\n".join(lines),
            f"sample them with `{words}` and the same options, or choose fewer with --n",
        )
