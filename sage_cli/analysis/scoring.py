"""Forward passes of a policy over given texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sage_cli.analysis.analysis import Scorer
from sage_cli.analysis.graded_samples import Answers
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.guides.token_signals import Measure
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.annotations import Annotations
from sage_cli.store.completion import Completion, token_ids

_Ids = tuple[int, ...]
_Pair = tuple[_Ids, _Ids]
"""Token ids of a prompt and of what follows it."""


class Forward:
    """A policy's model and tokenizer, each loaded at its first use."""

    def __init__(self, samples: PolicySamples, temperature: float, progress: Progress) -> None:
        self._samples, self._temperature, self._progress = samples, temperature, progress
        self._prompts: dict[str, _Ids] = {}
        self._texts: dict[int, str] = {}

    @cached_property
    def tokenizer(self) -> Any:
        """Return the policy's tokenizer."""
        return self._samples.policy.tokenizer

    def scores(
        self, rows: Sequence[Completion], problems: Mapping[str, Problem]
    ) -> list[tuple[Any, ...]]:
        """Return each completion with mean surprisal, mean entropy and length, as stored."""
        pairs = self._pairs(rows, problems)
        signals = self._signals(pairs)
        scores = []
        for row, pair in zip(rows, pairs, strict=True):
            logps_T, entropy_T = signals[pair]
            surprisal = 0.0 - float(logps_T.double().mean())
            scores.append((row, surprisal, float(entropy_T.double().mean()), len(pair[1])))
        self._progress.advance(len(rows))
        return scores

    def tokens(
        self,
        rows: Sequence[Completion],
        problems: Mapping[str, Problem],
        measures: Sequence[Measure] = (),
    ) -> list[tuple[Any, ...]]:
        """Return each completion with its tokens' ids, log-probabilities and entropies (T,).

        What `measures` say of the logits follows them, in their order.
        """
        pairs = self._pairs(rows, problems)
        signals = self._signals(pairs, measures)
        return [(row, pair[1], *signals[pair]) for row, pair in zip(rows, pairs, strict=True)]

    def text(self, token: int) -> str:
        """Return a token's own text; "�" for part of a character."""
        if token not in self._texts:
            text: str = self.tokenizer.decode([token])
            # SentencePiece leaves out the space before a text's first word
            begins = str(self.tokenizer.convert_ids_to_tokens(token)).startswith("▁")
            self._texts[token] = f" {text}" if begins and not text.startswith(" ") else text
        return self._texts[token]

    def _pairs(self, rows: Sequence[Completion], problems: Mapping[str, Problem]) -> list[_Pair]:
        stop = self.template.stop
        return [
            (self._prompt(problems[row.problem_id]), tuple(token_ids(self.tokenizer, row, stop)))
            for row in rows
        ]

    def _signals(
        self, pairs: Sequence[_Pair], measures: Sequence[Measure] = ()
    ) -> dict[_Pair, tuple[Any, ...]]:
        """Return (logps_T, entropy_T, ...) of each pair; equal pairs are computed once."""
        from sage_cli.models.signals import batch_signals, batches

        signals: dict[_Pair, tuple[Any, ...]] = {}
        vocabulary = int(self._model.config.get_text_config().vocab_size)
        for batch in batches(pairs, vocabulary):
            read = batch_signals(self._model, batch, self._temperature, measures)
            signals |= zip(batch, read, strict=True)
        return signals

    def _prompt(self, problem: Problem) -> _Ids:
        if problem.id not in self._prompts:
            self._prompts[problem.id] = self._ids(self.template.render(problem.question))
        return self._prompts[problem.id]

    def _ids(self, text: str) -> _Ids:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def template(self) -> PromptTemplate:
        """Return the policy's prompt template."""
        return PromptTemplate.from_section(self._samples.prompt, self.tokenizer)

    @cached_property
    def _model(self) -> Any:
        return self._samples.model(self._progress)


@dataclass(frozen=True, eq=False)
class ModelScorer:
    """A policy with its own prompt and dtype that scores samples at a temperature."""

    samples: PolicySamples
    temperature: float
    config: SageConfig
    progress: Progress

    @property
    def label(self) -> str:
        """Return the policy's label."""
        return self.samples.policy.label

    @property
    def determinants(self) -> dict[str, Any]:
        """Return everything that determines its scores, known without loading it."""
        policy = self.samples.policy
        return {
            "model": policy.fingerprint,
            "template": self.samples.template.hash,
            "dtype": policy.dtype(self.samples.dtype),
            "temperature": self.temperature,
        }

    def score(self, answers: Answers, writer: PolicySamples) -> Answers:
        """Return the answers with scores; missing ones are computed and stored as it goes.

        Raises ConfigurationError if the writer has another tokenizer.
        """
        stores = self._stores(writer)
        lacking, whole = _lacking(answers, stores)
        scored = replace(answers, scores=stores)
        if not lacking:
            return scored
        self._check_same_vocabulary(writer)
        title = f"{self.label} reads {answers.policy} on {answers.benchmark.name}"
        self.progress.begin(title, whole, "completions", whole - lacking)
        for store in stores:
            for rows in store.missing(answers.problems, answers.n):
                store.add(self._forward.scores(rows, answers.problems))
                store.flush()
        self.progress.end()
        return scored

    def _stores(self, writer: PolicySamples) -> tuple[Annotations, ...]:
        evaluation = self.config.evaluation
        seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
        sets = (writer.at(seed) for seed in seeds)
        return tuple(Annotations(sample_set, self.determinants, "scores") for sample_set in sets)

    def _check_same_vocabulary(self, writer: PolicySamples) -> None:
        policy = self.samples.policy
        if writer.policy.path == policy.path:
            return
        if writer.policy.tokenizer.get_vocab() != self._forward.tokenizer.get_vocab():
            raise ConfigurationError(
                f"{writer.policy.label} and {policy.label} have different tokenizers",
                "choose a base with the same tokenizer with --base",
            )

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self.samples, self.temperature, self.progress)


def _lacking(answers: Answers, stores: Sequence[Annotations]) -> tuple[int, int]:
    """Return how many completions have no values in `stores` yet, and how many there are."""
    whole = answers.n * len(answers.problems) * len(stores)
    return whole - sum(store.count(answers.problems, answers.n) for store in stores), whole


def scorers(
    scorer: Scorer | None, samples: Sequence[PolicySamples], config: SageConfig, progress: Progress
) -> list[tuple[PolicySamples, ModelScorer | None]]:
    """Return each policy's samples with their scorer: none, the base at temperature 1, or itself.

    A policy scores its own samples at the sampling temperature.
    """
    if scorer is None:
        return [(policy_samples, None) for policy_samples in samples]
    if scorer == "base":
        base = ModelScorer(samples[0], 1.0, config, progress)
        return [(policy_samples, base) for policy_samples in samples]
    temperature = config.sampling.temperature
    return [
        (policy_samples, ModelScorer(policy_samples, temperature, config, progress))
        for policy_samples in samples
    ]
