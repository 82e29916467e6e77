"""The decoding loop: cohorts of samples side by side, refilled as samples finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.sampling.cohort import Cohort, Prompt
from sage_cli.sampling.draw import choose_for, uniforms
from sage_cli.sampling.memory import SideBySide
from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.stopping import Stopping
from sage_cli.store.completion import Completion


class Decoder:
    """Draws the samples of requests, at most `batch_rows` of them at once."""

    def __init__(
        self, model: Any, stopping: Stopping, parameters: SamplingParameters, batch_rows: int
    ) -> None:
        self._model, self._stopping, self._parameters = model, stopping, parameters
        self._batch_rows = batch_rows
        self._cohort_size = max(1, batch_rows // 4)

    def run(self, tokenized: Sequence[tuple[SampleRequest, Sequence[int]]]) -> Iterator[Completion]:
        """Yield completions of (request, prompt token ids) pairs as they finish.

        Neighbours with the same prompt share its reading.
        """
        waiting = ((request, ids, index) for request, ids in tokenized for index in request.indices)
        left = sum(len(request.indices) for request, _ in tokenized)
        cohorts: list[Cohort] = []
        spare: list[OwnTokens] = []
        prompt: Prompt | None = None
        while left or cohorts:
            free = self._batch_rows - sum(map(len, cohorts))
            while left and free >= (size := min(self._cohort_size, left)):
                samples = []
                for request, ids, index in islice(waiting, size):
                    if prompt is None or prompt.ids != ids:
                        prompt = Prompt(self._model, request, ids)
                    samples.append((prompt, request, index))
                own = spare.pop() if spare else OwnTokens(samples[0][0].memory)
                cohort = Cohort(samples, own)
                yield from self._advance([cohort], cohort.first_logits_BV)
                cohorts.append(cohort)
                left, free = left - size, free - len(cohort)
            spare += [cohort.memory.own for cohort in cohorts if not len(cohort)]
            cohorts = [cohort for cohort in cohorts if len(cohort)]
            if cohorts:
                yield from self._advance(cohorts, self._forward(cohorts))

    def _forward(self, cohorts: list[Cohort]) -> Tensor:
        """Logits (B, V) after each row's last token."""
        tokens_B = np.concatenate([cohort.last_tokens for cohort in cohorts])
        positions_B = np.concatenate([cohort.positions for cohort in cohorts])
        for cohort in cohorts:
            cohort.memory.own.make_room()
        device = self._model.device
        output = self._model(
            input_ids=torch.from_numpy(tokens_B).unsqueeze(1).to(device),
            position_ids=torch.from_numpy(positions_B).unsqueeze(1).to(device),
            use_cache=False,
            memory=SideBySide([c.memory for c in cohorts], [c.rows for c in cohorts]),
        )
        for cohort in cohorts:
            cohort.memory.own.length += 1
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def _advance(self, cohorts: list[Cohort], logits_BV: Tensor) -> Iterator[Completion]:
        """Draw a token for every sample; yield those that it ends."""
        starts = np.cumsum([0, *(cohort.rows for cohort in cohorts)]).tolist()
        rows_S = np.concatenate(
            [c.rows_S + start for c, start in zip(cohorts, starts, strict=False)]
        )
        seeds_S = np.concatenate([cohort.seeds_S for cohort in cohorts])
        counts_S = np.concatenate([np.full(len(cohort), cohort.count) for cohort in cohorts])
        drawn_S = choose_for(logits_BV, rows_S, uniforms(seeds_S, counts_S), self._parameters)
        ends = np.cumsum([len(cohort) for cohort in cohorts])[:-1]
        for cohort, tokens_S in zip(cohorts, np.split(drawn_S, ends), strict=True):
            yield from cohort.advance(tokens_S, self._stopping)
