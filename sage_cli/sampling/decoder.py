"""The decoding loop: cohorts of samples side by side, refilled as samples finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.cohort import Cohort
from sage_cli.sampling.draw import choose_for, uniforms
from sage_cli.sampling.memory import SideBySide
from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.reading import Ids, Prompt, read_prompts
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.stopping import Stopping
from sage_cli.store.completion import Completion

COHORTS = 4
"""Cohorts in flight; each fits into a batch, whatever its samples draw."""

_Waiting = Iterator[tuple[SampleRequest, Ids, int]]
"""Requests, their prompts' token ids, and an index."""


class Decoder:
    """Draws the samples of requests with at most `batch_rows` rows in a forward pass."""

    def __init__(self, stopping: Stopping, parameters: SamplingParameters, batch_rows: int) -> None:
        self._stopping, self._parameters, self._batch_rows = stopping, parameters, batch_rows

    @torch.inference_mode()
    def run(
        self, model: MemoryModel, tokenized: Sequence[tuple[SampleRequest, Ids]]
    ) -> Iterator[list[Completion]]:
        """Yield what each step finishes of (request, prompt token ids) pairs.

        Neighbours share the reading of their prompt. Samples are admitted in the hope that
        many share rows; where too few do, those admitted last wait again (a sample is the same
        whenever it is drawn) and fewer are in flight from then on.
        """
        waiting: _Waiting = (
            (request, ids, index) for request, ids in tokenized for index in request.indices
        )
        left = sum(len(request.indices) for request, _ in tokenized)
        most = COHORTS * self._batch_rows
        cohorts: list[Cohort] = []
        spare: list[OwnTokens] = []
        prompts: dict[Ids, Prompt] = {}
        while left or cohorts:
            free = most - sum(map(len, cohorts))
            while left and free >= (size := min(max(1, most // COHORTS), left)):
                taken = list(islice(waiting, size))
                prompts = read_prompts(model, {ids for _, ids, _ in taken}, prompts)
                samples = [(prompts[ids], request, index) for request, ids, index in taken]
                own = spare.pop() if spare else OwnTokens(samples[0][0].memory)
                cohort = Cohort(samples, own)
                yield self._advance([cohort], cohort.first_logits_BV)
                cohorts.append(cohort)
                left, free = left - size, free - len(cohort)
            cohorts = [cohort for cohort in cohorts if len(cohort)]
            while len(cohorts) > 1 and sum(cohort.rows for cohort in cohorts) > self._batch_rows:
                evicted = cohorts.pop()
                waiting, left = chain(evicted.samples, waiting), left + len(evicted)
                most = max(self._batch_rows, most // 2)
            if cohorts:
                yield self._advance(cohorts, _logits(model, cohorts))
                ended = [cohort.memory.own for cohort in cohorts if not len(cohort)]
                spare += [own for own in ended if own.capacity <= self._batch_rows // COHORTS]
                cohorts = [cohort for cohort in cohorts if len(cohort)]

    def _advance(self, cohorts: list[Cohort], logits_BV: Tensor) -> list[Completion]:
        """Draw a token for every sample; returns the completions that it ends."""
        starts = np.cumsum([0, *(cohort.rows for cohort in cohorts[:-1])])
        rows_S = np.concatenate(
            [cohort.rows_S + start for cohort, start in zip(cohorts, starts, strict=True)]
        )
        seeds_S = np.concatenate([cohort.seeds_S for cohort in cohorts])
        counts_S = np.concatenate([np.full(len(cohort), cohort.count) for cohort in cohorts])
        drawn_S = choose_for(logits_BV, rows_S, uniforms(seeds_S, counts_S), self._parameters)
        ends = np.cumsum([len(cohort) for cohort in cohorts[:-1]], dtype=np.int64)
        drawn = zip(cohorts, np.split(drawn_S, ends), strict=True)
        return [row for cohort, ids_S in drawn for row in cohort.advance(ids_S, self._stopping)]


def _logits(model: MemoryModel, cohorts: list[Cohort]) -> Tensor:
    """Logits (B, V) after each row's last token, which the cohorts' memories take in."""
    tokens_B = np.concatenate([cohort.last_tokens for cohort in cohorts])
    positions_B = np.concatenate([cohort.positions for cohort in cohorts])
    for cohort in cohorts:
        cohort.memory.own.make_room()
    logits_BV = model.logits(
        SideBySide([c.memory for c in cohorts], [c.rows for c in cohorts]),
        torch.from_numpy(tokens_B).unsqueeze(1).to(model.device),
        position_ids=torch.from_numpy(positions_B).unsqueeze(1).to(model.device),
    )
    for cohort in cohorts:
        cohort.memory.own.length += 1
    return logits_BV
