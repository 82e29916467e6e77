"""What `sage analyze --dry-run` prints: stored inputs, missing ones, and who would read them."""

from __future__ import annotations

from typing import Any

from sage_cli.analysis.answers import Answers
from sage_cli.commands.measure.analyze import Analysing
from sage_cli.config.describe import samples_in_words
from sage_cli.planning.dry_run import Described
from sage_cli.progress import Silent


def plan(asked: Analysing) -> list[Described]:
    """Return which inputs are stored, which are missing, and the command that samples them."""
    analysis = asked.analysis
    facts: dict[str, Any] = {"says": analysis.says}
    if analysis.records:
        runs = asked.runs.values()
        facts |= {run.id: f"{len(run.metrics.read()):,} steps recorded" for run in runs}
    elif analysis.chances:
        facts |= _reading_facts(asked)
    else:
        stored = asked.stored
        facts["samples"] = samples_in_words(asked.spec.evaluation)
        facts |= {
            f"{one.policy} on {one.benchmark}": f"{one.graded:,} of {one.wanted:,} graded samples "
            "are there"
            for one in stored
        }
        if any(one.graded < one.wanted for one in stored):
            facts["to be sampled by"] = asked.sampling_command
        facts |= _scoring_facts(asked)
        if analysis.scorer == "modes":
            facts |= {f"chances of {key}": of for key, of in _reading_facts(asked).items()}
    return [Described(f"analyze {analysis.name}", facts)]


def _reading_facts(asked: Analysing) -> dict[str, str]:
    """Return how many right texts policies would have to read."""
    facts = {}
    for reader in asked.text_readers:
        lacking, whole = reader.missing()
        key = f"{reader.own.policy.label} on {reader.benchmark.name}"
        facts[key] = f"{lacking:,} of {whole:,} right texts to read"
    return facts


def _scoring_facts(asked: Analysing) -> dict[str, str]:
    """Return how many completions or prompts a model would have to score."""
    facts: dict[str, str] = {}
    kind = asked.analysis.scorer
    for samples, scorer in asked.scorers(Silent()):
        if scorer is None or kind == "self if stored":
            continue
        for benchmark in asked.benchmarks:
            where = f"reads {samples.policy.label} on {benchmark.name}"
            if kind == "modes":
                lacking, whole = scorer.problems_without_modes(benchmark)
                facts[f"{scorer.label} {where}"] = f"{lacking:,} of {whole:,} prompts to read"
                continue
            own = Answers.of(samples, benchmark, asked.spec)
            lacking, whole = scorer.lacking(own, samples)
            facts[f"{scorer.label} {where}"] = f"{lacking:,} of {whole:,} completions to read"
    return facts
