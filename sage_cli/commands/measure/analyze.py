"""`sage analyze`: analyses of stored samples and training records."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sage_cli.analysis.analysis import Analysis, Inputs, ModeChances, Options
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.load import Subject, require_samples, trained
from sage_cli.analysis.measures.modes import generator_with_modes
from sage_cli.analysis.registry import find_analysis
from sage_cli.analysis.scoring import scorers
from sage_cli.analysis.selection import (
    Request,
    chosen_runs,
    only,
    options_of,
    samples_of,
    with_base,
)
from sage_cli.analysis.token_signals import TokenReaders
from sage_cli.analysis.token_table import TokenTable
from sage_cli.commands.measure.right_texts import modes_readers, text_readers
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.exact.chances import Chances
from sage_cli.evaluation.exact.texts import Others
from sage_cli.evaluation.provenance import configured_provenance, provenance_of
from sage_cli.evaluation.stored import missing
from sage_cli.models.policies.names import NO_LABELS, Labels
from sage_cli.progress import Progress
from sage_cli.reports.document import Document, Report
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of
from sage_cli.store.runs.run import Run, Runs
from sage_cli.store.surroundings import surroundings


def analyze(
    evaluation: Evaluation,
    name: str,
    names: Sequence[str],
    request: Request,
    progress: Progress,
    labels: Labels = NO_LABELS,
) -> Report:
    """Analyse the named runs or models, and write the report.

    `labels` are the labels of models in tables and figures, by the typed name.
    """
    document, folder = answer(evaluation, name, names, request, progress, labels)
    with progress.doing("drawing and writing the report"):
        return document.write(folder)


def answer(
    evaluation: Evaluation,
    name: str,
    names: Sequence[str],
    request: Request,
    progress: Progress,
    labels: Labels = NO_LABELS,
) -> tuple[Document, Path]:
    """Return the analysis's document, and the folder of its report."""
    analysis, spec = find_analysis(name), evaluation.spec
    options = options_of(analysis, spec, request)
    if analysis.records:
        runs = chosen_runs(names, Runs(evaluation.root), labels)
        with progress.doing(f"reading {spec.evaluation.benchmark}"):
            inputs = _of_records(runs, evaluation, options, progress)
        content: Any = {label: run.identity or run.id for label, run in runs.items()}
    else:
        with progress.doing(f"reading {spec.evaluation.benchmark}"):
            benchmarks = only(evaluation.benchmarks, request.problems)
        subjects = subjects_of(analysis, evaluation, names, request.base, benchmarks, labels)
        if analysis.chances:
            inputs = _of_chances(subjects, benchmarks, spec, options, progress)
        else:
            with progress.doing("looking for stored samples"):
                command = sampling_command(subjects, request)
                require_samples(subjects, benchmarks, spec, evaluation.root, command)
            inputs = _of_samples(analysis, subjects, benchmarks, spec, options, progress)
        content = [asdict(sample_set) for sample_set in inputs.provenance.samples or ()]
        content += [[problem.id for problem in one.problems] for one in benchmarks]
    settings = [spec.evaluation.determinants(), spec.grading.determinants(), repr(options)]
    identity = identity_of(f"analyze-{name}", [content, settings])
    about = inputs.answers or [run.run for run in inputs.trained.values()]
    about = about or [name for name, _ in inputs.chances]
    stems = "-".join(dict.fromkeys(Path(one).stem for one in about))
    folder = evaluation.root / "reports" / f"analyze-{name}-{stems[:80]}-{identity[:8]}"
    with progress.doing(f"computing {name}"):
        return analysis.of(inputs), folder


def subjects_of(
    analysis: Analysis,
    evaluation: Evaluation,
    names: Sequence[str],
    base: str | None,
    benchmarks: Sequence[Benchmark],
    labels: Labels = NO_LABELS,
) -> list[Subject]:
    """Return the named policies, after the base if one is needed or named.

    Raises DataError if modes are asked of a benchmark without them, before samples are looked for.
    """
    if analysis.scorer == "modes":
        for benchmark in benchmarks:
            generator_with_modes(benchmark.name)
    runs = Runs(evaluation.root)
    policies = evaluation.policies(names, labels)
    if analysis.base or base is not None:
        policies = with_base(policies, base, runs, evaluation.spec.model, labels)
    return samples_of(policies, evaluation.spec, runs)


def sampling_command(subjects: Sequence[Subject], request: Request) -> str:
    """Return the command that samples what these policies lack."""
    return shlex.join(["sage", "passk", *(one.policy.word for one in subjects), *request.sampling])


def _of_records(
    runs: Mapping[str, Run], evaluation: Evaluation, options: Options, progress: Progress
) -> Inputs:
    """Return training records, with measured checkpoints if the benchmarks are available."""
    benchmarks: Sequence[Benchmark] = []
    spec = evaluation.spec
    provenance = Provenance.here(surroundings())
    try:
        benchmarks = evaluation.benchmarks
        provenance = configured_provenance(benchmarks, spec)
    except DataError as error:
        progress.say(f"training reward is shown without pass@1 beside it: {error.cause}")
    return Inputs(
        trained={label: trained(run, benchmarks, spec) for label, run in runs.items()},
        options=options,
        provenance=provenance,
    )


def _of_samples(
    analysis: Analysis,
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    options: Options,
    progress: Progress,
) -> Inputs:
    """Return policies' answers, with a model's scores if the analysis needs them."""
    answers: dict[str, list[Answers]] = {benchmark.name: [] for benchmark in benchmarks}
    modes: dict[tuple[str, str], ModeChances] = {}
    tokens: dict[tuple[str, str], TokenTable] = {}
    for subject, scorer in scorers(analysis.scorer, subjects, spec, progress):
        for benchmark in benchmarks:
            with progress.doing(f"reading samples of {subject.policy.label} on {benchmark.name}"):
                own = subject.answers(benchmark, spec)
            if scorer is not None and analysis.scorer == "modes":
                modes[benchmark.name, own.policy] = scorer.modes(benchmark)
            elif scorer is not None and analysis.scorer == "tokens":
                readers = token_readers(subject, spec, options, progress)
                tokens[benchmark.name, own.policy] = readers.table(own, options.guides)
            elif scorer is not None:
                stored = analysis.scorer == "self if stored"
                own = (scorer.if_stored if stored else scorer.score)(own, subject.samples)
            answers[benchmark.name].append(own)
    chances = {
        (reader.benchmark.name, subject.policy.label): reader.read(progress)
        for subject, reader in modes_readers(analysis, subjects, benchmarks, spec, options)
    }
    return Inputs(
        answers={name: tuple(of) for name, of in answers.items()},
        modes=modes,
        tokens=tokens,
        chances=chances,
        options=options,
        provenance=provenance_of([one.samples for one in subjects], benchmarks, spec),
    )


def _of_chances(
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    options: Options,
    progress: Progress,
) -> Inputs:
    """Return the exact chances of policies' right texts, and other samples where all are stored."""
    chances: dict[tuple[str, str], Chances] = {}
    others: dict[tuple[str, str], Others] = {}
    for subject, reader in text_readers(subjects, benchmarks, spec, options):
        benchmark = reader.benchmark
        key = benchmark.name, subject.policy.label
        chances[key] = reader.read(progress)
        (there,) = missing([subject.policy], [benchmark], spec, subject.samples.root)
        if there.graded == there.wanted:
            rows = subject.answers(benchmark, spec).rows()
            others[key] = reader.others((row.completion, row.right) for row in rows)
    return Inputs(
        chances=chances,
        others=others,
        options=options,
        provenance=provenance_of([one.samples for one in subjects], benchmarks, spec),
    )


def token_readers(
    subject: Subject, spec: EvaluationSpec, options: Options, progress: Progress
) -> TokenReaders:
    """Return what reads the signals of a policy's tokens."""
    return TokenReaders.of(subject, spec, options.guides, options.temperature, progress)
