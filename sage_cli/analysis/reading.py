"""Models that read what is stored; what they find is kept beside the samples.

Nothing is loaded before the first of it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.forward import Forward
from sage_cli.analysis.gather import Subject
from sage_cli.analysis.modes import generator_with_modes
from sage_cli.config.recipe import EvaluationSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.json_value import json_value
from sage_cli.progress import Progress
from sage_cli.store.atomic import write_json
from sage_cli.store.identity import identity_of
from sage_cli.store.readings import ReadingStore

Kind = Literal["base", "itself", "itself, where kept", "announcements"]


@dataclass(frozen=True, eq=False)
class Reader:
    """A policy under its own prompt and type, which reads at a temperature."""

    own: PolicySamples
    temperature: float
    recipe: EvaluationSpec
    progress: Progress

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.own.policy.label

    @property
    def determinants(self) -> dict[str, Any]:
        """Everything that decides what it finds, known without loading it."""
        policy = self.own.policy
        return {
            "model": policy.fingerprint,
            "template": self.own.template.hash,
            "dtype": policy.dtype(self.own.dtype),
            "temperature": self.temperature,
        }

    def unread(self, answers: Answers, writer: PolicySamples) -> tuple[int, int]:
        """How many of `writer`'s completions it hasn't read, and of how many."""
        stores = self._stores(writer, read_only=True)
        whole = answers.n * len(answers.problems)
        there = sum(store.count(answers.problems, answers.n) for store in stores)
        return whole * len(stores) - there, whole * len(stores)

    def read(self, answers: Answers, writer: PolicySamples) -> Answers:
        """The answers with readings; what lacks is read, and on disk some 2,048 at a time.

        Raises ConfigurationError where the writer has another tokenizer.
        """
        stores = self._stores(writer)
        lacking, whole = self.unread(answers, writer)
        if lacking:
            self._refuse_other_vocabulary(writer)
            title = f"{self.label} reads {answers.policy} on {answers.benchmark.name}"
            self.progress.begin(title, whole, "completions", whole - lacking)
            for store in stores:
                for rows in store.missing(answers.problems, answers.n):
                    store.add(self._forward.readings(rows, answers.problems))
                    store.flush()
            self.progress.end()
        return replace(answers, readings=stores)

    def kept(self, answers: Answers, writer: PolicySamples) -> Answers:
        """The answers with readings where all have been read, else as they are."""
        lacking, _ = self.unread(answers, writer)
        if lacking:
            return answers
        return replace(answers, readings=self._stores(writer, read_only=True))

    def unasked(self, benchmark: Benchmark) -> tuple[int, int]:
        """For how many of the problems it hasn't told the chances of modes, and of how many."""
        return len(set(benchmark.golds) - set(self._kept(benchmark))), len(benchmark.golds)

    def announcements(self, benchmark: Benchmark) -> dict[str, dict[str, float]]:
        """Problem id -> mode -> the chance that a completion of its own announces the mode."""
        found = self._kept(benchmark)
        missing = [problem for problem in benchmark.problems if problem.id not in found]
        if missing:
            words = _words(benchmark, self.recipe)
            self.progress.say(f"{self.label}: chances of {', '.join(words)} on {benchmark.name}")
            found |= self._forward.chances(missing, words)
            write_json(self._file(benchmark), found)
        return found

    def _stores(
        self, writer: PolicySamples, *, read_only: bool = False
    ) -> tuple[ReadingStore, ...]:
        evaluation = self.recipe.evaluation
        return tuple(
            ReadingStore(writer.at(seed, read_only=read_only), self.determinants)
            for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds)
        )

    def _kept(self, benchmark: Benchmark) -> dict[str, dict[str, float]]:
        """The chances that were told before; none where the file is absent or torn."""
        try:
            kept = json_value(self._file(benchmark).read_bytes())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _file(self, benchmark: Benchmark) -> Path:
        decisive = [self.determinants, _words(benchmark, self.recipe)]
        samples = self.own.at(self.recipe.evaluation.seed, read_only=True)
        return samples.folder / "readings" / f"modes-{identity_of('modes', decisive)[:16]}.json"

    def _refuse_other_vocabulary(self, writer: PolicySamples) -> None:
        policy = self.own.policy
        if writer.policy.path == policy.path:
            return
        if writer.policy.tokenizer().get_vocab() != self._forward.tokenizer.get_vocab():
            raise ConfigurationError(
                f"{writer.policy.label} writes in other tokens than {policy.label} reads: their "
                "tokenizers differ",
                "name a base with the same tokenizer by --base",
            )

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self.own, self.temperature, self.progress)


def readers(
    kind: Kind | None, subjects: Sequence[Subject], recipe: EvaluationSpec, progress: Progress
) -> list[tuple[Subject, Reader | None]]:
    """Each subject with who reads for it: nobody, the base at temperature 1, or it itself.

    The subject itself reads at the sampling temperature.
    """
    if kind is None:
        return [(subject, None) for subject in subjects]
    if kind == "base":
        base = Reader(subjects[0].samples, 1.0, recipe, progress)
        return [(subject, base) for subject in subjects]
    heat = recipe.sampling.temperature
    return [(one, Reader(one.samples, heat, recipe, progress)) for one in subjects]


def _words(benchmark: Benchmark, recipe: EvaluationSpec) -> Mapping[str, list[str]]:
    """What completions begin with that announce a mode: the opening tag before it, or none."""
    opening = "" if recipe.prompt.format == "paper" else recipe.prompt.reasoning_open
    modes = generator_with_modes(benchmark.name).modes
    return {mode: list(dict.fromkeys((opening + words, words))) for mode, words in modes.items()}
