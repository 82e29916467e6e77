"""The decoding loop: cohorts of samples side by side, refilled as samples finish."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from sage_cli.errors import SamplingError
from sage_cli.sampling.decoder.attention import MemoryModel
from sage_cli.sampling.decoder.cohort import Cohort, Ids, Prompt, prefill
from sage_cli.sampling.decoder.memory import OwnTokens, SideBySide
from sage_cli.sampling.decoder.resources import is_out_of_memory, release
from sage_cli.sampling.decoder.stopping import Stopping
from sage_cli.sampling.decoder.token_choice import choose_by_sample, uniforms
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.store.samples.completion import Completion

log = logging.getLogger(__name__)

COHORTS = 4
"""Cohorts in flight. One alone fits into a batch even if its samples share no row."""

_Sample = tuple[SampleRequest, Ids, int]
"""A request, its prompt's token ids, and an index."""


class _Flight:
    """Waiting samples, and the cohorts in flight with at most `rows` rows together.

    `most` bounds the samples in flight. It starts at several times `rows`, because samples that
    share rows cost nothing more, and is halved whenever too few do.
    """

    def __init__(self, tokenized: Sequence[tuple[SampleRequest, Ids]], rows: int) -> None:
        self.waiting: Iterator[_Sample] = (
            (request, ids, index) for request, ids in tokenized for index in request.indices
        )
        self.left = sum(len(request.indices) for request, _ in tokenized)
        self.cohorts: list[Cohort] = []
        self.clear(rows)

    def clear(self, rows: int) -> None:
        """Drop everything that holds memory; at most `rows` rows from here on."""
        self.rows, self.most = rows, COHORTS * rows
        self.cohorts = []
        self.spare: list[OwnTokens] = []
        self.prompts: dict[Ids, Prompt] = {}
        self.taken: list[_Sample] = []

    @property
    def admits(self) -> int:
        """The size of the next cohort; 0 if there is no room or no waiting sample."""
        size = min(max(1, self.most // COHORTS), self.left)
        return size if self.most - sum(map(len, self.cohorts)) >= size else 0

    def take(self, size: int) -> list[_Sample]:
        """Return the next samples, which wait again if the running step fails."""
        self.taken, self.left = list(islice(self.waiting, size)), self.left - size
        return self.taken

    def give_back(self, samples: list[_Sample]) -> None:
        """Let samples wait again, before all others; a sample does not depend on its turn."""
        self.waiting, self.left = chain(samples, self.waiting), self.left + len(samples)

    def evict(self) -> None:
        """While there are too many rows, let the last cohort wait again and halve `most`."""
        while len(self.cohorts) > 1 and sum(cohort.rows for cohort in self.cohorts) > self.rows:
            self.give_back(self.cohorts.pop().samples)
            self.most = max(self.rows, self.most // 2)

    def drop_ended(self) -> None:
        """Remove cohorts without samples, but keep their buffers for the next ones."""
        ended = [cohort.memory.own for cohort in self.cohorts if not len(cohort)]
        self.spare += [own for own in ended if own.capacity <= self.rows // COHORTS]
        self.cohorts = [cohort for cohort in self.cohorts if len(cohort)]


class Decoder:
    """Samples requests with at most `batch_rows` rows in a forward pass.

    When memory runs out, the number of rows is halved with a warning.
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
        """Yield the completions that each step ends, of (request, prompt token ids) pairs.

        Requests with the same prompt should be neighbours: they share its prefill. More samples are
        admitted than there are rows, because samples share rows. If too few do, the last cohort
        waits again and fewer samples are in flight from then on. If memory runs out, all samples in
        flight wait again. `fitting_rows` estimates how many rows fit into memory. Raises
        SamplingError if not even one does.
        """
        flight = _Flight(tokenized, min(self._batch_rows, fitting_rows or self._batch_rows))
        while flight.left or flight.cohorts:
            if not (size := flight.admits):
                flight.evict()
            running = [cohort.samples for cohort in flight.cohorts]
            ended: list[Completion] | None = None
            try:
                ended = self._admit(model, flight, size) if size else self._step(model, flight)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if ended is None:  # not in `except`: the traceback holds the step's tensors
                self._restart(flight, running)
                continue
            flight.taken = []
            flight.drop_ended()
            yield ended

    def _admit(self, model: MemoryModel, flight: _Flight, size: int) -> list[Completion]:
        taken = flight.take(size)
        flight.prompts = prefill(model, {ids for _, ids, _ in taken}, flight.prompts)
        samples = [(flight.prompts[ids], request, index) for request, ids, index in taken]
        own = flight.spare.pop() if flight.spare else OwnTokens(samples[0][0].memory)
        cohort = Cohort(samples, own)
        ended = self._advance([cohort], cohort.first_logits_BV)
        flight.cohorts.append(cohort)
        return ended

    def _step(self, model: MemoryModel, flight: _Flight) -> list[Completion]:
        return self._advance(flight.cohorts, _logits(model, flight.cohorts))

    def _restart(self, flight: _Flight, running: list[list[_Sample]]) -> None:
        """Start all samples in flight again, with half as many rows."""
        if flight.rows == 1:
            raise SamplingError(
                "memory ran out with one completion at a time",
                "lower sampling.max_tokens, or use a GPU with more memory; "
                "sampling.backend=vllm with sampling.vllm.tensor_parallel_size spreads a model",
            )
        lost = [*chain.from_iterable(running), *flight.taken]
        flight.clear(flight.rows // 2)
        flight.give_back(lost)
        self._batch_rows = flight.rows
        release()
        log.warning(
            "memory ran out: %d samples start again, with %d rows at once from here on",
            len(lost),
            flight.rows,
        )

    def _advance(self, cohorts: list[Cohort], logits_BV: Tensor) -> list[Completion]:
        """Sample a token for every sample; return the completions that it ends."""
        # rows of the cohorts follow one another in `logits_BV`, so row numbers are shifted
        starts = np.cumsum([0, *(cohort.rows for cohort in cohorts[:-1])])
        rows_S = np.concatenate(
            [cohort.rows_S + start for cohort, start in zip(cohorts, starts, strict=True)]
        )
        seeds_S = np.concatenate([cohort.seeds_S for cohort in cohorts])
        counts_S = np.concatenate([np.full(len(cohort), cohort.count) for cohort in cohorts])
        tokens_S = choose_by_sample(
            logits_BV, rows_S, uniforms(seeds_S, counts_S), self._parameters
        )
        ends = np.cumsum([len(cohort) for cohort in cohorts[:-1]], dtype=np.int64)
        split = zip(cohorts, np.split(tokens_S, ends), strict=True)
        return [row for cohort, ids_S in split for row in cohort.advance(ids_S, self._stopping)]


def _logits(model: MemoryModel, cohorts: list[Cohort]) -> Tensor:
    """Return the logits (B, V) after each row's last token, which the memories store."""
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
