"""The readers of right texts that an analysis needs, and what they would read."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.analysis.analysis import Analysis, Options
from sage_cli.analysis.load import Subject
from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.exact.chances import ExactReader, exact_reader
from sage_cli.evaluation.exact.texts import lists_right_texts


def text_readers(
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    options: Options,
) -> list[tuple[Subject, ExactReader]]:
    """Return what reads right texts, of each policy on each benchmark."""
    return [
        (subject, exact_reader(subject.samples, benchmark, spec.data, options.temperatures))
        for subject in subjects
        for benchmark in benchmarks
    ]


def modes_readers(
    analysis: Analysis,
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    options: Options,
) -> list[tuple[Subject, ExactReader]]:
    """Return what reads right texts for `modes`, where they are listed and prompts are ours."""
    if analysis.scorer != "modes":
        return []
    listing = [one for one in benchmarks if lists_right_texts(one.name)]
    own = [one for one in subjects if not one.samples.in_chat]
    return text_readers(own, listing, spec, options)


def reading_facts(readers: Sequence[tuple[Subject, ExactReader]]) -> dict[str, str]:
    """Return how many right texts policies would have to read."""
    facts = {}
    for subject, reader in readers:
        lacking, whole = reader.missing()
        key = f"{subject.policy.label} on {reader.benchmark.name}"
        facts[key] = f"{lacking:,} of {whole:,} right texts to read"
    return facts
