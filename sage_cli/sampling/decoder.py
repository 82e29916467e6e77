"""The decoding loop: cohorts of samples side by side, refilled as samples finish."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from sage_cli.errors import SamplingError
from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.cohort import Cohort
from sage_cli.sampling.draw import choose_for, uniforms
from sage_cli.sampling.memory import SideBySide
from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.reading import Ids, Prompt, read_prompts
from sage_cli.sampling.room import is_out_of_memory, release
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.stopping import Stopping
from sage_cli.store.completion import Completion

log = logging.getLogger(__name__)

COHORTS = 4
"""Cohorts in flight; each fits into a batch, whatever its samples draw."""

_Sample = tuple[SampleRequest, Ids, int]
"""A request, its prompt's token ids, and an index."""


class _Flight:
    """Samples that wait, and the cohorts that are under way with at most `rows` rows together."""

    def __init__(self, tokenized: Sequence[tuple[SampleRequest, Ids]], rows: int) -> None:
        self.waiting: Iterator[_Sample] = (
            (request, ids, index) for request, ids in tokenized for index in request.indices
        )
        self.left = sum(len(request.indices) for request, _ in tokenized)
        self.cohorts: list[Cohort] = []
        self.clear(rows)

    def clear(self, rows: int) -> None:
        """Let go of everything that holds memory; at most `rows` rows from here on."""
        self.rows, self.most = rows, COHORTS * rows
        self.cohorts = []
        self.spare: list[OwnTokens] = []
        self.prompts: dict[Ids, Prompt] = {}
        self.taken: list[_Sample] = []

    @property
    def admits(self) -> int:
        """How many samples the next cohort has; 0 where there is no room, or nobody waits."""
        size = min(max(1, self.most // COHORTS), self.left)
        return size if self.most - sum(map(len, self.cohorts)) >= size else 0

    def take(self, size: int) -> list[_Sample]:
        """The next samples, which the running step answers for."""
        self.taken, self.left = list(islice(self.waiting, size)), self.left - size
        return self.taken

    def give_back(self, samples: list[_Sample]) -> None:
        """Have samples wait again, before all others: one is the same whenever it is drawn."""
        self.waiting, self.left = chain(samples, self.waiting), self.left + len(samples)

    def evict(self) -> None:
        """Have those admitted last wait again while too few share rows, and fewer in flight."""
        while len(self.cohorts) > 1 and sum(one.rows for one in self.cohorts) > self.rows:
            self.give_back(self.cohorts.pop().samples)
            self.most = max(self.rows, self.most // 2)

    def drop_ended(self) -> None:
        """Forget cohorts without samples, and keep their buffers for the next ones."""
        ended = [cohort.memory.own for cohort in self.cohorts if not len(cohort)]
        self.spare += [own for own in ended if own.capacity <= self.rows // COHORTS]
        self.cohorts = [cohort for cohort in self.cohorts if len(cohort)]


class Decoder:
    """Draws the samples of requests with at most `batch_rows` rows in a forward pass.

    Where memory runs out there are half as many from then on, and a line says so.
    """

    def __init__(self, stopping: Stopping, parameters: SamplingParameters, batch_rows: int) -> None:
        self._stopping, self._parameters, self._batch_rows = stopping, parameters, batch_rows

    @torch.inference_mode()
    def run(
        self,
        model: MemoryModel,
        tokenized: Sequence[tuple[SampleRequest, Ids]],
        fitting_rows: int | None = None,
    ) -> Iterator[list[Completion]]:
        """Yield what each step finishes of (request, prompt token ids) pairs.

        Neighbours share the reading of their prompt. Samples are admitted in the hope that
        many share rows; where too few do, those admitted last wait again and fewer are in flight
        from then on. So do all of them when memory runs out. `fitting_rows` is how many rows
        memory is thought to hold. Raises SamplingError where it doesn't hold a single one.
        """
        flight = _Flight(tokenized, min(self._batch_rows, fitting_rows or self._batch_rows))
        while flight.left or flight.cohorts:
            if not (size := flight.admits):
                flight.evict()
            begun = [cohort.samples for cohort in flight.cohorts]
            ended: list[Completion] | None = None
            try:
                ended = self._admit(model, flight, size) if size else self._go_on(model, flight)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if ended is None:  # outside of `except`, whose traceback holds the step's tensors
                self._make_room(flight, begun)
                continue
            flight.taken = []
            flight.drop_ended()
            yield ended

    def _admit(self, model: MemoryModel, flight: _Flight, size: int) -> list[Completion]:
        """Begin a cohort of `size` samples."""
        taken = flight.take(size)
        flight.prompts = read_prompts(model, {ids for _, ids, _ in taken}, flight.prompts)
        samples = [(flight.prompts[ids], request, index) for request, ids, index in taken]
        own = flight.spare.pop() if flight.spare else OwnTokens(samples[0][0].memory)
        cohort = Cohort(samples, own)
        ended = self._advance([cohort], cohort.first_logits_BV)
        flight.cohorts.append(cohort)
        return ended

    def _go_on(self, model: MemoryModel, flight: _Flight) -> list[Completion]:
        """Draw one more token for every sample in flight."""
        return self._advance(flight.cohorts, _logits(model, flight.cohorts))

    def _make_room(self, flight: _Flight, begun: list[list[_Sample]]) -> None:
        """Begin all samples in flight anew, with half as many rows; what was yielded stands."""
        if flight.rows == 1:
            raise SamplingError(
                "memory ran out with one completion at a time",
                "lower sampling.max_tokens, or use a card with more memory; "
                "sampling.backend=vllm with sampling.vllm.tensor_parallel_size spreads a model",
            )
        lost = [*chain.from_iterable(begun), *flight.taken]
        flight.clear(flight.rows // 2)
        flight.give_back(lost)
        self._batch_rows = flight.rows
        release()
        log.warning(
            "memory ran out: %d samples begin anew, with %d rows at once from here on",
            len(lost),
            flight.rows,
        )

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
