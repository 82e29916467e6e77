"""The decoding loop: cohorts of rows side by side, refilled as rows finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.sampling.cohort import Cohort, Prompt
from sage_cli.sampling.draw import choose, uniforms
from sage_cli.sampling.memory import SideBySide
from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.stopping import Stopping
from sage_cli.store.completion import Completion


class Decoder:
    """Draws the samples of requests with at most `batch_rows` rows at once."""

    def __init__(
        self, model: Any, stopping: Stopping, parameters: SamplingParameters, batch_rows: int
    ) -> None:
        self._model, self._stopping, self._parameters = model, stopping, parameters
        self._batch_rows = batch_rows
        self._cohort_rows = max(1, batch_rows // 4)

    def run(self, tokenized: Sequence[tuple[SampleRequest, Sequence[int]]]) -> Iterator[Completion]:
        """Yield completions of (request, prompt token ids) pairs as they finish."""
        waiting = ((request, ids, index) for request, ids in tokenized for index in request.indices)
        left = sum(len(request.indices) for request, _ in tokenized)
        cohorts: list[Cohort] = []
        spare: list[OwnTokens] = []
        prompt: Prompt | None = None
        while left or cohorts:
            free = self._batch_rows - sum(map(len, cohorts))
            while left and free >= (size := min(self._cohort_rows, left)):
                rows = []
                for request, ids, index in islice(waiting, size):
                    if prompt is None or prompt.request is not request:
                        prompt = Prompt(self._model, request, ids)
                    rows.append((prompt, index))
                own = spare.pop() if spare else OwnTokens(rows[0][0].memory, self._cohort_rows)
                cohort = Cohort(rows, self._parameters.seed, own)
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
            memory=SideBySide([c.memory for c in cohorts], [len(c) for c in cohorts]),
        )
        for cohort in cohorts:
            cohort.memory.own.length += 1
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def _advance(self, cohorts: list[Cohort], logits_BV: Tensor) -> Iterator[Completion]:
        """Draw a token for every row; yield and drop the rows that it finishes."""
        seeds_B = np.concatenate([cohort.seeds_B for cohort in cohorts])
        counts_B = np.concatenate([np.full(len(cohort), cohort.count) for cohort in cohorts])
        drawn_B = choose(logits_BV, uniforms(seeds_B, counts_B), self._parameters).cpu().numpy()
        may_end_B = self._stopping.may_end(drawn_B, counts_B + 1)
        start = 0
        for cohort in cohorts:
            rows = slice(start, start + len(cohort))
            start = rows.stop
            cohort.append(drawn_B[rows])
            yield from self._finish(cohort, np.flatnonzero(may_end_B[rows]).tolist())

    def _finish(self, cohort: Cohort, rows: list[int]) -> Iterator[Completion]:
        """Of the rows that may have ended, yield and drop those that have."""
        finished = []
        for row, ending in zip(rows, self._stopping.endings(cohort.tokens(rows)), strict=True):
            if ending is not None:
                finished.append(row)
                yield Completion(
                    cohort.problem_ids[row],
                    cohort.indices[row],
                    self._parameters.seed,
                    ending.text,
                    cohort.count,
                    ending.reason,
                )
        if finished:
            cohort.drop(finished)
