"""Scores of stored samples by a model, stored beside them.

A model is loaded only if a score is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sage_cli.analysis.analysis import Scorer
from sage_cli.analysis.answers import Answers
from sage_cli.analysis.forward import Forward
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.progress import Progress
from sage_cli.store.samples.annotations import Annotations


@dataclass(frozen=True, eq=False)
class ModelScorer:
    """A policy with its own prompt and dtype that scores samples at a temperature."""

    own: PolicySamples
    temperature: float
    recipe: EvaluationSpec
    progress: Progress

    @property
    def label(self) -> str:
        """Return the policy's label."""
        return self.own.policy.label

    @property
    def determinants(self) -> dict[str, Any]:
        """Return everything that determines its scores, known without loading it."""
        policy = self.own.policy
        return {
            "model": policy.fingerprint,
            "template": self.own.template.hash,
            "dtype": policy.dtype(self.own.dtype),
            "temperature": self.temperature,
        }

    def lacking(self, answers: Answers, writer: PolicySamples) -> tuple[int, int]:
        """Return how many of `writer`'s completions have no score yet, and how many there are."""
        return _lacking(answers, self._stores(writer, read_only=True))

    def score(self, answers: Answers, writer: PolicySamples) -> Answers:
        """Return the answers with scores; missing ones are computed and stored as it goes.

        Raises ConfigurationError if the writer has another tokenizer.
        """
        stores = self._stores(writer)
        self._complete(stores, answers, writer)
        return replace(answers, scores=stores)

    def _complete(
        self, stores: Sequence[Annotations], answers: Answers, writer: PolicySamples
    ) -> None:
        """Have the completions without scores read, and store them as it goes."""
        lacking, whole = _lacking(answers, stores)
        if not lacking:
            return
        self._refuse_other_vocabulary(writer)
        title = f"{self.label} reads {answers.policy} on {answers.benchmark.name}"
        self.progress.begin(title, whole, "completions", whole - lacking)
        for store in stores:
            for rows in store.missing(answers.problems, answers.n):
                store.add(self._forward.scores(rows, answers.problems))
                store.flush()
        self.progress.end()

    def if_stored(self, answers: Answers, writer: PolicySamples) -> Answers:
        """Return the answers with scores if all are stored, else as they are."""
        stores = self._stores(writer, read_only=True)
        return answers if _lacking(answers, stores)[0] else replace(answers, scores=stores)

    def _stores(self, writer: PolicySamples, *, read_only: bool = False) -> tuple[Annotations, ...]:
        evaluation = self.recipe.evaluation
        seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
        sets = (writer.at(seed, read_only=read_only) for seed in seeds)
        return tuple(Annotations(one, self.determinants, "scores") for one in sets)

    def _refuse_other_vocabulary(self, writer: PolicySamples) -> None:
        policy = self.own.policy
        if writer.policy.path == policy.path:
            return
        if writer.policy.tokenizer().get_vocab() != self._forward.tokenizer.get_vocab():
            raise ConfigurationError(
                f"{writer.policy.label} and {policy.label} have different tokenizers",
                "name a base with the same tokenizer by --base",
            )

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self.own, self.temperature, self.progress)


def _lacking(answers: Answers, stores: Sequence[Annotations]) -> tuple[int, int]:
    """Return how many completions have no values in `stores` yet, and how many there are."""
    whole = answers.n * len(answers.problems) * len(stores)
    return whole - sum(store.count(answers.problems, answers.n) for store in stores), whole


def scorers(
    scorer: Scorer | None,
    samples: Sequence[PolicySamples],
    recipe: EvaluationSpec,
    progress: Progress,
) -> list[tuple[PolicySamples, ModelScorer | None]]:
    """Return each policy's samples with their scorer: none, the base at temperature 1, or itself.

    A policy scores its own samples at the sampling temperature.
    """
    if scorer is None:
        return [(own, None) for own in samples]
    if scorer == "base":
        base = ModelScorer(samples[0], 1.0, recipe, progress)
        return [(own, base) for own in samples]
    temperature = recipe.sampling.temperature
    return [(own, ModelScorer(own, temperature, recipe, progress)) for own in samples]
