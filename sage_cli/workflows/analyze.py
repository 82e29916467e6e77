"""`sage analyze`: what stored samples and records tell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.chosen import chosen_runs, only, samples_of, with_base
from sage_cli.analysis.gather import Subject, require_samples, trained
from sage_cli.analysis.material import Asked, Material, ModeChances
from sage_cli.analysis.modes import generator_with_modes
from sage_cli.analysis.options import Options, asked_of
from sage_cli.analysis.reading import readers
from sage_cli.analysis.registry import find_analysis
from sage_cli.config.in_words import samples_in_words
from sage_cli.config.recipe import EvaluationSpec
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.provenance import configured_provenance, provenance_of
from sage_cli.evaluation.stored import missing
from sage_cli.planning.dry_run import Described
from sage_cli.policies.names import NO_LABELS, Labels
from sage_cli.progress import Progress, Silent
from sage_cli.reports.document import Document, Report
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of
from sage_cli.store.run import Run, Runs
from sage_cli.store.surroundings import surroundings


def analyze(
    evaluation: Evaluation,
    name: str,
    names: Sequence[str],
    options: Options,
    progress: Progress,
    labels: Labels = NO_LABELS,
) -> Report:
    """Answer with the analysis `name` about the named runs or models, and write the report.

    `labels` are what tables and figures call a model, by the name that was typed.
    """
    document, folder = answer(evaluation, name, names, options, progress, labels)
    with progress.doing("drawing and writing the report"):
        return document.write(folder)


def answer(
    evaluation: Evaluation,
    name: str,
    names: Sequence[str],
    options: Options,
    progress: Progress,
    labels: Labels = NO_LABELS,
) -> tuple[Document, Path]:
    """The analysis's answer, and the folder that a report of it belongs into."""
    analysis, spec = find_analysis(name), evaluation.spec
    asked = asked_of(analysis, spec.evaluation, options)
    reading = progress.doing(f"reading {spec.evaluation.benchmark}")
    if analysis.records:
        runs = chosen_runs(names, Runs(evaluation.root), labels)
        with reading:
            material = _of_records(runs, evaluation, asked, progress)
        content: Any = {label: run.identity or run.id for label, run in runs.items()}
    else:
        with reading:
            benchmarks = only(evaluation.benchmarks, options.problems)
        subjects = _subjects(analysis, evaluation, names, options.base, labels)
        _refuse_modeless(analysis, benchmarks)
        with progress.doing("looking for stored samples"):
            command = _command(subjects, options)
            require_samples(subjects, benchmarks, spec, evaluation.root, command)
        material = _of_samples(analysis, subjects, benchmarks, spec, asked, progress)
        content = [asdict(one) for one in material.provenance.samples or ()]
        content += [[one.id for one in benchmark.problems] for benchmark in benchmarks]
    settings = [spec.evaluation.determinants(), spec.grading.determinants(), repr(asked)]
    identity = identity_of(f"analyze-{name}", [content, settings])
    about = material.answers or [run.run for run in material.trained.values()]
    stems = "-".join(dict.fromkeys(Path(one).stem for one in about))
    folder = evaluation.root / "reports" / f"analyze-{name}-{stems[:80]}-{identity[:8]}"
    with progress.doing(f"computing {name}"):
        return analysis.of(material), folder


def plan(
    evaluation: Evaluation, name: str, names: Sequence[str], options: Options
) -> list[Described]:
    """Describe which inputs of the analysis are stored, and how to sample the missing ones."""
    analysis, spec = find_analysis(name), evaluation.spec
    asked_of(analysis, spec.evaluation, options)
    facts: dict[str, Any] = {"says": analysis.says}
    if analysis.records:
        facts |= {run.id: f"{len(run.metrics.read()):,} steps recorded"
                  for run in chosen_runs(names, Runs(evaluation.root)).values()}  # fmt: skip
        return [Described(f"analyze {name}", facts)]
    benchmarks = only(evaluation.benchmarks, options.problems)
    subjects = _subjects(analysis, evaluation, names, options.base)
    _refuse_modeless(analysis, benchmarks)
    policies = [subject.policy for subject in subjects]
    facts["samples"] = samples_in_words(spec.evaluation)
    lacks = False
    for one in missing(policies, benchmarks, spec, evaluation.root):
        lacks |= one.graded < one.wanted
        facts[f"{one.policy} on {one.benchmark}"] = (
            f"{one.graded:,} of {one.wanted:,} graded samples are there"
        )
    if lacks:
        facts["to be sampled by"] = _command(subjects, options)
    facts |= _reading_facts(analysis, subjects, benchmarks, spec)
    return [Described(f"analyze {name}", facts)]


def _subjects(
    analysis: Analysis,
    evaluation: Evaluation,
    names: Sequence[str],
    base: str | None,
    labels: Labels = NO_LABELS,
) -> list[Subject]:
    """The policies that are named, behind the base where one is needed or named."""
    policies, runs = evaluation.policies(names, labels), Runs(evaluation.root)
    if analysis.base or base is not None:
        policies = with_base(policies, base, runs, evaluation.spec.model, labels)
    return samples_of(policies, evaluation.spec, runs)


def _refuse_modeless(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> None:
    """Before samples are asked for that no mode could be read from."""
    if analysis.reader == "announcements":
        for benchmark in benchmarks:
            generator_with_modes(benchmark.name)


def _command(subjects: Sequence[Subject], options: Options) -> str:
    return shlex.join(["sage", "passk", *(one.policy.word for one in subjects), *options.drawing])


def _of_records(
    runs: Mapping[str, Run], evaluation: Evaluation, asked: Asked, progress: Progress
) -> Material:
    """Trainings' records; the checkpoints' measurements where the benchmarks can be had."""
    benchmarks: Sequence[Benchmark] = []
    spec, provenance = evaluation.spec, Provenance.here(surroundings())
    try:
        benchmarks = evaluation.benchmarks
        provenance = configured_provenance(benchmarks, spec)
    except DataError as error:
        progress.say(f"training reward is shown without pass@1 beside it: {error.cause}")
    return Material(
        trained={label: trained(run, benchmarks, spec) for label, run in runs.items()},
        asked=asked,
        provenance=provenance,
    )


def _of_samples(
    analysis: Analysis,
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    asked: Asked,
    progress: Progress,
) -> Material:
    """Policies' answers, with what a model has to say of them."""
    answers: dict[str, list[Answers]] = {benchmark.name: [] for benchmark in benchmarks}
    modes: dict[tuple[str, str], ModeChances] = {}
    for subject, reader in readers(analysis.reader, subjects, spec, progress):
        for benchmark in benchmarks:
            with progress.doing(f"reading samples of {subject.policy.label} on {benchmark.name}"):
                own = subject.answers(benchmark, spec)
            if reader is not None and analysis.reader == "announcements":
                modes[benchmark.name, own.policy] = reader.announcements(benchmark)
            elif reader is not None and analysis.reader == "itself, where kept":
                own = reader.kept(own, subject.samples)
            elif reader is not None:
                own = reader.read(own, subject.samples)
            answers[benchmark.name].append(own)
    return Material(
        answers={name: tuple(of) for name, of in answers.items()},
        modes=modes,
        asked=asked,
        provenance=provenance_of([one.samples for one in subjects], benchmarks, spec),
    )


def _reading_facts(
    analysis: Analysis,
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
) -> dict[str, str]:
    """The texts that a model would have to read, by model and benchmark."""
    facts = {}
    for subject, reader in readers(analysis.reader, subjects, spec, Silent()):
        if reader is None or analysis.reader == "itself, where kept":
            continue
        for benchmark in benchmarks:
            if analysis.reader == "announcements":
                lacking, whole, what = *reader.unasked(benchmark), "prompts"
            else:
                own = subject.answers(benchmark, spec)
                lacking, whole, what = *reader.unread(own, subject.samples), "completions"
            key = f"{reader.label} reads {subject.policy.label} on {benchmark.name}"
            facts[key] = f"{lacking:,} of {whole:,} {what} to read"
    return facts
