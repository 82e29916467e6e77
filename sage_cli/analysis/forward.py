"""Forward passes of a policy over given texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.samples.completion import Completion, token_ids

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""Token ids of a prompt and of what follows it."""


class Forward:
    """A policy's model and tokenizer, each loaded at its first use."""

    def __init__(self, own: PolicySamples, temperature: float, progress: Progress) -> None:
        self._own, self._temperature, self._progress = own, temperature, progress
        self._prompts: dict[str, Ids] = {}
        self._texts: dict[int, str] = {}

    @cached_property
    def tokenizer(self) -> Any:
        """Return the policy's tokenizer."""
        return self._own.policy.tokenizer()

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
        self, rows: Sequence[Completion], problems: Mapping[str, Problem]
    ) -> list[tuple[Completion, Ids, Any, Any]]:
        """Return each completion with its tokens' ids, log-probabilities and entropies (T,)."""
        pairs = self._pairs(rows, problems)
        signals = self._signals(pairs)
        return [(row, pair[1], *signals[pair]) for row, pair in zip(rows, pairs, strict=True)]

    def text(self, token: int) -> str:
        """Return a token's own text; "�" for part of a character."""
        if token not in self._texts:
            text: str = self.tokenizer.decode([token])
            # SentencePiece leaves out the space before a text's first word
            begins = str(self.tokenizer.convert_ids_to_tokens(token)).startswith("▁")
            self._texts[token] = f" {text}" if begins and not text.startswith(" ") else text
        return self._texts[token]

    def _pairs(self, rows: Sequence[Completion], problems: Mapping[str, Problem]) -> list[Pair]:
        stop = self._template.stop
        return [
            (self._prompt(problems[row.problem_id]), tuple(token_ids(self.tokenizer, row, stop)))
            for row in rows
        ]

    def _signals(self, pairs: Sequence[Pair]) -> dict[Pair, tuple[Any, Any]]:
        """Return (logps_T, entropy_T) of each pair; equal pairs are computed once."""
        from sage_cli.models.signals import batch_signals, batches

        signals: dict[Pair, tuple[Any, Any]] = {}
        for batch in batches(pairs, int(self._model.config.vocab_size)):
            signals |= zip(batch, batch_signals(self._model, batch, self._temperature), strict=True)
        return signals

    def _prompt(self, problem: Problem) -> Ids:
        if problem.id not in self._prompts:
            self._prompts[problem.id] = self._ids(self._template.render(problem.question))
        return self._prompts[problem.id]

    def _ids(self, text: str) -> Ids:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def _template(self) -> PromptTemplate:
        return PromptTemplate.from_section(self._own.prompt, self.tokenizer)

    @cached_property
    def _model(self) -> Any:
        return self._own.model(self._progress)
