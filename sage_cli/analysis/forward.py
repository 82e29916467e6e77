"""Forward passes of a policy over texts that are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.samples.completion import Completion, token_ids

NUMBERS_AT_ONCE = 1 << 27
"""Logits that one pass may give: rows x tokens x vocabulary."""
ROWS_AT_ONCE = 256

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""Token ids of a prompt and of what follows it."""


class Forward:
    """The model and the tokenizer of a policy, each loaded when it is first used."""

    def __init__(self, own: PolicySamples, temperature: float, progress: Progress) -> None:
        self._own, self._temperature, self._progress = own, temperature, progress
        self._prompts: dict[str, Ids] = {}

    @cached_property
    def tokenizer(self) -> Any:
        """The policy's own."""
        return self._own.policy.tokenizer()

    def readings(
        self, rows: Sequence[Completion], problems: Mapping[str, Problem]
    ) -> list[tuple[Any, ...]]:
        """Each completion with mean surprisal, mean entropy and length, as a store takes them."""
        stop = self._template.stop
        pairs = [
            (self._prompt(problems[row.problem_id]), tuple(token_ids(self.tokenizer, row, stop)))
            for row in rows
        ]
        signals = self._signals(pairs)
        found = []
        for row, pair in zip(rows, pairs, strict=True):
            logps_T, entropy_T = signals[pair]
            surprisal = 0.0 - float(logps_T.double().mean())
            found.append((row, surprisal, float(entropy_T.double().mean()), len(pair[1])))
        self._progress.advance(len(rows))
        return found

    def chances(
        self, problems: Sequence[Problem], words: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, float]]:
        """Problem id -> name -> the chance that a completion begins with one of the name's words.

        Words of one name must not begin with each other.
        """
        begun = {name: [self._ids(one) for one in of] for name, of in words.items()}
        pairs = [
            (self._prompt(problem), ids)
            for problem in problems for of in begun.values() for ids in of
        ]  # fmt: skip
        signals = self._signals(pairs)

        def chance(problem: Problem, ids: Ids) -> float:
            return float(signals[self._prompt(problem), ids][0].double().sum().exp())

        return {
            problem.id: {
                name: sum(chance(problem, ids) for ids in of) for name, of in begun.items()
            }
            for problem in problems
        }

    def _signals(self, pairs: Sequence[Pair]) -> dict[Pair, tuple[Any, Any]]:
        """(logps_T, entropy_T) of each; equal ones are computed once."""
        from sage_cli.models.signals import batch_signals

        different = sorted(dict.fromkeys(pairs), key=_length)
        found: dict[Pair, tuple[Any, Any]] = {}
        for batch in batches(different, int(self._model.config.vocab_size)):
            found |= zip(batch, batch_signals(self._model, batch, self._temperature), strict=True)
        return found

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
        import torch

        policy = self._own.policy
        self._progress.say(f"loading {policy.label}")
        model = policy.model(dtype=policy.dtype(self._own.dtype))
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def batches(pairs: Sequence[Pair], vocabulary: int) -> Iterator[list[Pair]]:
    """Pairs of ascending length in batches whose logits fit; each has one at least."""
    batch: list[Pair] = []
    for pair in pairs:
        # the longest so far, to which the others are padded
        rows = min(ROWS_AT_ONCE, max(1, NUMBERS_AT_ONCE // (_length(pair) * vocabulary)))
        if batch and len(batch) >= rows:
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch


def _length(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])
