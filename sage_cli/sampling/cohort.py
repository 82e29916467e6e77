"""Cohorts: the rows of a prompt that are decoded together, one for all samples still equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from sage_cli.sampling.graphs import FixedMemory
from sage_cli.sampling.prefill import Prompt
from sage_cli.sampling.sampler import (
    SampleRequest,
    sample_seed,
)
from sage_cli.sampling.stopping import Ending, Stopping
from sage_cli.sampling.token_memory import (
    CohortMemory,
    Indices,
)
from sage_cli.store.completion import Completion


class Cohort:
    """Samples of one or several prompts; all have equally many sampled tokens.

    Equal lengths let the rows' own tokens lie in one rectangle, without masks. Samples that are
    admitted later are a cohort of their own instead of being padded to the length of the others.
    """

    def __init__(
        self,
        samples: Sequence[tuple[Prompt, SampleRequest, int]],
        memory: CohortMemory | FixedMemory,
    ) -> None:
        """Begin with a row for each prompt, in their order, as `memory` does."""
        prompts = {prompt: row for row, prompt in enumerate(dict.fromkeys(s[0] for s in samples))}
        self.samples = [(request, prompt.ids, index) for prompt, request, index in samples]
        self.rows_S: Indices = np.array([prompts[prompt] for prompt, _, _ in samples])
        self.seeds_S = np.array(
            [sample_seed(r.seed, r.problem_id, index) for _, r, index in samples], dtype=np.uint64
        )
        self.memory = memory
        self.first_logits_BV = torch.stack([prompt.logits_V for prompt in prompts])
        self._starts_B: Indices = np.array([len(prompt.ids) for prompt in prompts])
        self._tokens_BT = np.zeros((len(prompts), 32), dtype=np.int64)
        self.count = 0
        """Tokens sampled so far, the same number for every sample."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def rows(self) -> int:
        """The number of different texts so far, which the model computes."""
        return len(self._starts_B)

    @property
    def last_tokens(self) -> Indices:
        """The input of the next step, (B,)."""
        return self._tokens_BT[:, self.count - 1]

    @property
    def positions(self) -> Indices:
        """The positions of the last tokens, counted from the start of the prompt, (B,)."""
        return self._starts_B + (self.count - 1)

    def advance(self, tokens_S: Indices, stopping: Stopping) -> Iterator[Completion]:
        """Append a token to each sample; yield and remove the samples that it ends."""
        # samples of one row and one token are one child: (row, token) is encoded as one number
        # (row, token) pairs as one integer each: np.unique of integers sorts once, which is several
        # times as fast as unique rows of a matrix
        base = int(tokens_S.max()) + 1
        children_C, child_S = np.unique(self.rows_S * base + tokens_S, return_inverse=True)
        parents_C, tokens_C = np.divmod(children_C, base)
        self.count += 1
        endings = self._endings(parents_C, tokens_C, stopping)
        if endings:
            alive_C = np.ones(len(children_C), dtype=bool)
            alive_C[list(endings)] = False
            for sample in np.flatnonzero(~alive_C[child_S]).tolist():
                request, _, index = self.samples[sample]
                ids, ending = endings[child_S[sample]]
                yield Completion(
                    request.problem_id,
                    index,
                    request.seed,
                    ending.text,
                    tokens=self.count,
                    finish_reason=ending.reason,
                    token_ids=ids,
                )
            child_S = self._drop(alive_C, child_S)
            parents_C, tokens_C = parents_C[alive_C], tokens_C[alive_C]
        self._settle(parents_C, tokens_C, child_S)

    def _endings(
        self, parents_C: Indices, tokens_C: Indices, stopping: Stopping
    ) -> dict[int, tuple[tuple[int, ...], Ending]]:
        """Return token ids and ending of each child that has ended."""
        # few tokens can end a text (an end of sequence, the last part of a closing tag, the length
        # limit): only these texts are decoded
        children = np.flatnonzero(stopping.may_end(tokens_C, self.count))
        before_CT = self._tokens_BT[parents_C[children], : self.count - 1]
        ids = np.column_stack([before_CT, tokens_C[children]]).tolist()
        endings = zip(children.tolist(), ids, stopping.endings(ids), strict=True)
        return {child: (tuple(row), ending) for child, row, ending in endings if ending}

    def _drop(self, alive_C: np.ndarray[Any, np.dtype[np.bool_]], child_S: Indices) -> Indices:
        """Remove the samples of ended children; return `child_S` as indices into the others."""
        alive_S = alive_C[child_S]
        self.samples = [self.samples[sample] for sample in np.flatnonzero(alive_S).tolist()]
        self.seeds_S = self.seeds_S[alive_S]
        renumbered_S: Indices = (np.cumsum(alive_C) - 1)[child_S[alive_S]]
        return renumbered_S

    def _settle(self, parents_C: Indices, tokens_C: Indices, child_S: Indices) -> None:
        """Assign a row to each child: its parent's to the first child, a free one to the others.

        Children are sorted by parent. Rows stay where they are if possible, since moving one copies
        its keys and values.
        """
        children = len(parents_C)
        first_C = np.diff(parents_C, prepend=-1) > 0
        stays_C = first_C & (parents_C < children)
        rows_C = parents_C.copy()
        # the numbers 0 to C - 1 are given out without gaps, because memory is cut off behind them
        rows_C[~stays_C] = np.setdiff1d(np.arange(children), parents_C[stays_C])
        sources_B = np.empty_like(parents_C)
        # the parent of the child that gets row r: what `take` copies keys and values from
        sources_B[rows_C] = parents_C
        # in most steps no row splits or ends: then nothing is copied
        if children != self.rows or not stays_C.all():
            self.memory.take(sources_B)
            self._starts_B, self._tokens_BT = self._starts_B[sources_B], self._tokens_BT[sources_B]
        if self.count > self._tokens_BT.shape[1]:
            # doubled, so that the copies of a long text sum to less than its length twice
            self._tokens_BT = np.pad(self._tokens_BT, ((0, 0), (0, self.count)))
        self._tokens_BT[rows_C, self.count - 1] = tokens_C
        self.rows_S = rows_C[child_S]
