"""What `sage analyze --dry-run` prints: stored inputs, missing ones, and who would read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.analysis.analysis import Analysis, Options
from sage_cli.analysis.load import Subject
from sage_cli.analysis.registry import find_analysis
from sage_cli.analysis.scoring import scorers
from sage_cli.analysis.selection import Request, chosen_runs, only, options_of
from sage_cli.commands.measure.analyze import (
    sampling_command,
    subjects_of,
    token_readers,
)
from sage_cli.commands.measure.right_texts import modes_readers, reading_facts, text_readers
from sage_cli.config.describe import samples_in_words
from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.stored import missing
from sage_cli.planning.dry_run import Described
from sage_cli.progress import Silent
from sage_cli.store.runs.run import Runs


def plan(
    evaluation: Evaluation, name: str, names: Sequence[str], request: Request
) -> list[Described]:
    """Return which inputs are stored, which are missing, and the command that samples them."""
    analysis, spec = find_analysis(name), evaluation.spec
    options = options_of(analysis, spec, request)
    facts: dict[str, Any] = {"says": analysis.says}
    if analysis.records:
        runs = chosen_runs(names, Runs(evaluation.root)).values()
        facts |= {run.id: f"{len(run.metrics.read()):,} steps recorded" for run in runs}
        return [Described(f"analyze {name}", facts)]
    benchmarks = only(evaluation.benchmarks, request.problems)
    subjects = subjects_of(analysis, evaluation, names, request.base, benchmarks)
    if analysis.chances:
        facts |= reading_facts(text_readers(subjects, benchmarks, spec, options))
        return [Described(f"analyze {name}", facts)]
    policies = [subject.policy for subject in subjects]
    facts["samples"] = samples_in_words(spec.evaluation)
    stored = missing(policies, benchmarks, spec, evaluation.root)
    for one in stored:
        counted = f"{one.graded:,} of {one.wanted:,} graded samples are there"
        facts[f"{one.policy} on {one.benchmark}"] = counted
    if any(one.graded < one.wanted for one in stored):
        facts["to be sampled by"] = sampling_command(subjects, request)
    facts |= _scoring_facts(analysis, subjects, benchmarks, spec, options)
    texts = reading_facts(modes_readers(analysis, subjects, benchmarks, spec, options))
    facts |= {f"chances of {key}": reading for key, reading in texts.items()}
    return [Described(f"analyze {name}", facts)]


def _scoring_facts(
    analysis: Analysis,
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    options: Options,
) -> dict[str, str]:
    """Return how many completions or prompts a model would have to score."""
    facts: dict[str, str] = {}
    for subject, scorer in scorers(analysis.scorer, subjects, spec, Silent()):
        if scorer is None or analysis.scorer == "self if stored":
            continue
        for benchmark in benchmarks:
            if analysis.scorer == "tokens":
                facts |= _token_facts(subject, benchmark, spec, options)
                continue
            if analysis.scorer == "modes":
                lacking, whole, what = *scorer.problems_without_modes(benchmark), "prompts"
            else:
                own = subject.answers(benchmark, spec)
                lacking, whole, what = *scorer.unscored(own, subject.samples), "completions"
            key = f"{scorer.label} reads {subject.policy.label} on {benchmark.name}"
            facts[key] = f"{lacking:,} of {whole:,} {what} to read"
    return facts


def _token_facts(
    subject: Subject, benchmark: Benchmark, spec: EvaluationSpec, options: Options
) -> dict[str, str]:
    """Return how many completions each model would have to read."""
    own = subject.answers(benchmark, spec)
    facts = {}
    for reader in token_readers(subject, spec, options, Silent()).all:
        lacking, whole = reader.unread(own, subject.samples)
        at = f" at temperature {reader.temperature:g}"
        key = f"{reader.label} reads {subject.policy.label} on {benchmark.name}{at}"
        facts[key] = f"{lacking:,} of {whole:,} completions to read"
    return facts
