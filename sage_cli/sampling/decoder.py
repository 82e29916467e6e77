"""The decoding loop: samples whose texts are still equal are computed once, as one row.

At the start all samples of a prompt are one row; where their tokens differ, it splits. A sample's
tokens depend on its own seed alone, so nothing of what follows changes a text: neither the batch
that a sample falls into nor how often it starts again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.errors import (
    RefusedPromptsError,
    SamplingError,
    is_out_of_memory,
)
from sage_cli.models.loading import context_of, release_memory
from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.choosing import choose_by_sample, sample_uniforms
from sage_cli.sampling.cohort import Cohort
from sage_cli.sampling.graphs import FixedMemory
from sage_cli.sampling.prefill import Prompt, TokenIds, prefill
from sage_cli.sampling.resources import fitting_rows, threads_for
from sage_cli.sampling.sampler import (
    Sampler,
    SampleRequest,
    SamplingParameters,
    too_long,
)
from sage_cli.sampling.stopping import Stopping, eos_ids
from sage_cli.sampling.token_memory import (
    CohortMemory,
    OwnTokens,
    PromptMemory,
    SharedPrompts,
    SideBySide,
)
from sage_cli.store.completion import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


log = logging.getLogger(__name__)
COHORTS = 4
"""Cohorts in flight. One alone fits into a batch even if its samples share no row."""
_Sample = tuple[SampleRequest, TokenIds, int]
"""A request, its prompt's token ids, and an index."""


class _Flight:
    """Waiting samples, and the cohorts in flight with at most `rows` rows together.

    `most` bounds the samples in flight. It starts at several times `rows`, because samples that
    share rows cost nothing more, and is halved whenever too few do. With `fixed` memory one cohort
    is in flight, with at most a sample for each row.
    """

    def __init__(
        self, tokenized: Sequence[tuple[SampleRequest, TokenIds]], rows: int, fixed: bool
    ) -> None:
        self.waiting: Iterator[_Sample] = (
            (request, ids, index) for request, ids in tokenized for index in request.indices
        )
        self.left = sum(len(request.indices) for request, _ in tokenized)
        self.cohorts: list[Cohort] = []
        self._fixed = fixed
        self.clear(rows)

    def clear(self, rows: int) -> None:
        """Drop everything that holds memory; at most `rows` rows from here on."""
        # as if each row had four samples: at the beginning all samples of a prompt share a row
        self.rows, self.most = rows, COHORTS * rows
        self.cohorts = []
        self.spare: list[OwnTokens] = []
        self.fixed: FixedMemory | None = None
        self.prompts: dict[TokenIds, Prompt] = {}
        self.taken: list[_Sample] = []

    @property
    def admits(self) -> int:
        """The size of the next cohort; 0 if there is no room or no waiting sample."""
        if self._fixed and self.cohorts:
            return 0
        # a quarter at a time: a cohort that ends makes room for the next while the others go on, so
        # that the batch stays full although texts differ in length
        size = min(max(1, self.most // COHORTS), self.left)
        return size if self.most - sum(map(len, self.cohorts)) >= size else 0

    def take(self, size: int) -> list[_Sample]:
        """Return the next samples, which wait again if the running step fails."""
        self.taken, self.left = list(islice(self.waiting, size)), self.left - size
        return self.taken

    def memory(self, model: MemoryModel, prompts: list[PromptMemory]) -> CohortMemory | FixedMemory:
        """Return the memory of a new cohort, whose rows are these prompts."""
        if self._fixed:
            self.fixed = self.fixed or FixedMemory(model, len(self.taken), prompts[0])
            self.fixed.begin(prompts)
            return self.fixed
        # a used buffer has grown to the length that texts have; a new one would grow step by step
        # again
        buffer = self.spare.pop() if self.spare else OwnTokens(prompts[0])
        buffer.begin(len(prompts))
        return CohortMemory(SharedPrompts(prompts, np.arange(len(prompts))), buffer)

    def give_back(self, samples: list[_Sample]) -> None:
        """Return samples to the front of the queue; a sample does not depend on its turn."""
        self.waiting, self.left = chain(samples, self.waiting), self.left + len(samples)

    def evict(self) -> None:
        """While there are too many rows, let the last cohort wait again and halve `most`."""
        # more samples are admitted than there are rows, in the hope that they share them. If they
        # part, their rows would outgrow the memory that `rows` stands for: the last cohort has lost
        # the least by starting again, and its seeds give the same tokens
        while len(self.cohorts) > 1 and sum(cohort.rows for cohort in self.cohorts) > self.rows:
            self.give_back(self.cohorts.pop().samples)
            self.most = max(self.rows, self.most // 2)

    def drop_ended(self) -> None:
        """Remove cohorts without samples, but keep their buffers for the next ones."""
        # a buffer that has grown beyond a cohort's usual share would hold memory for nothing
        ended = [cohort.memory for cohort in self.cohorts if not len(cohort)]
        buffers = [memory.own for memory in ended if isinstance(memory, CohortMemory)]
        self.spare += [buffer for buffer in buffers if buffer.capacity <= self.rows // COHORTS]
        self.cohorts = [cohort for cohort in self.cohorts if len(cohort)]


def _logits(model: MemoryModel, cohorts: list[Cohort]) -> Tensor:
    """Return the logits (B, V) after each row's last token, which the memories store."""
    tokens_B = np.concatenate([cohort.last_tokens for cohort in cohorts])
    positions_B = np.concatenate([cohort.positions for cohort in cohorts])
    if isinstance(fixed := cohorts[0].memory, FixedMemory):
        return fixed.logits(tokens_B, positions_B)
    memories = [c.memory for c in cohorts if isinstance(c.memory, CohortMemory)]
    for memory in memories:
        # all memories first: an allocation that fails must leave every length as it was, because
        # the samples start again
        memory.own.make_room(1, memory.own.length + 1)
    logits_BV = model.logits(
        SideBySide(memories, [cohort.rows for cohort in cohorts]),
        torch.from_numpy(tokens_B).unsqueeze(1).to(model.device),
        position_ids=torch.from_numpy(positions_B).unsqueeze(1).to(model.device),
    )
    for memory in memories:
        # only after the pass, which may run out of memory
        memory.own.length += 1
    return logits_BV


class TransformersSampler(Sampler):
    """Samples from a loaded model, with or without LoRA adapters, and its tokenizer.

    At most `batch_rows` rows are in a forward pass; their number is halved when memory runs out.
    With `graphs`, which a GPU has if nothing else is said, steps are recorded as CUDA graphs, and
    a batch ends before the next begins.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        parameters: SamplingParameters,
        batch_rows: int = 256,
        graphs: bool | None = None,
    ) -> None:
        self._model, self._tokenizer, self._device = model, tokenizer, model.device.type
        self._parameters, self._batch_rows = parameters, batch_rows
        self._graphs = self._device == "cuda" if graphs is None else graphs
        vocabulary = model.config.get_text_config().vocab_size
        of_model = getattr(model.generation_config, "eos_token_id", None)
        ends = eos_ids(of_model, tokenizer)
        self._stopping = Stopping(tokenizer, ends, vocabulary, parameters)

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions."""
        return {
            "engine": f"transformers {version('transformers')}",
            "torch": torch.__version__,
            "device": self._device,
        }

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as they end; problems are ordered by the lengths of their prompts."""
        if not requests:
            return
        texts = [request.prompt for request in requests]
        ids = map(tuple, self._tokenizer(texts, add_special_tokens=False)["input_ids"])
        yield from self.sample_ids(list(zip(requests, ids, strict=True)))

    def sample_ids(
        self, tokenized: Sequence[tuple[SampleRequest, TokenIds]]
    ) -> Iterator[Completion]:
        """Yield completions of prompts given as token ids, instead of the requests' texts."""
        if self._model is None:
            raise SamplingError("the transformers sampler was closed")
        context = context_of(self._model.config)
        refused = {
            request.problem_id: reason
            for request, ids in tokenized
            if (reason := too_long(len(ids), self._parameters.max_tokens, context))
        }
        tokenized = sorted(
            (pair for pair in tokenized if pair[0].problem_id not in refused),
            # by length, then by ids: prompts of one length need no padding, and equal prompts are
            # neighbours, which share a prefill
            key=lambda pair: (len(pair[1]), pair[1]),
        )
        if tokenized:
            yield from self._decoded(tokenized)
        if refused:
            raise RefusedPromptsError(refused)

    def _decoded(self, tokenized: Sequence[tuple[SampleRequest, TokenIds]]) -> Iterator[Completion]:
        if not tokenized[0][1]:
            raise SamplingError(f"the prompt of problem {tokenized[0][0].problem_id} is empty")
        longest = len(tokenized[-1][1])
        # the last sampled token is not an input
        model = MemoryModel(self._model, longest + self._parameters.max_tokens - 1)
        with (
            without_dropout(self._model),
            model.attending(),
            threads_for(self._model),
            cast_once(self._model),
        ):
            fitting = fitting_rows(self._model, longest, self._parameters.max_tokens)
            for ended in self._run(model, tokenized, fitting):
                yield from ended

    @torch.inference_mode()
    def _run(
        self,
        model: MemoryModel,
        tokenized: Sequence[tuple[SampleRequest, TokenIds]],
        fitting: int | None,
    ) -> Iterator[list[Completion]]:
        """Yield the completions that each step ends, of (request, prompt token ids) pairs.

        Requests with the same prompt should be neighbours: they share its prefill. More samples are
        admitted than there are rows, because samples share rows. If too few do, the last cohort
        waits again and fewer samples are in flight from then on. If memory runs out, all samples in
        flight wait again, with half as many rows. `fitting` estimates how many rows fit into
        memory. Raises SamplingError if not even one does.
        """
        rows = min(self._batch_rows, fitting or self._batch_rows)
        flight = _Flight(tokenized, rows, self._graphs)
        while flight.left or flight.cohorts:
            if not (size := flight.admits):
                flight.evict()
            # noted before the step: `advance` removes samples that have ended, and those of a
            # cohort whose step fails half-way would be lost otherwise
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
        needed = {ids for _, ids, _ in taken}
        # padding costs a CPU time, and many small passes cost a GPU more
        flight.prompts = prefill(model, needed, flight.prompts, mixed=self._graphs)
        samples = [(flight.prompts[ids], request, index) for request, ids, index in taken]
        prompts = dict.fromkeys(prompt for prompt, _, _ in samples)
        cohort = Cohort(samples, flight.memory(model, [prompt.memory for prompt in prompts]))
        if self._graphs:  # the rows hold them; the next batch may begin with the last one
            flight.prompts = {ids: flight.prompts[ids] for _, ids, _ in taken[-1:]}
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
        # before the next allocation, or the allocator's fragments of the failed batch would make
        # the smaller one fail, too
        release_memory()
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
            logits_BV, rows_S, sample_uniforms(seeds_S, counts_S), self._parameters
        )
        # rows are the model's, samples are ours: tokens are split by samples
        ends = np.cumsum([len(cohort) for cohort in cohorts[:-1]], dtype=np.int64)
        split = zip(cohorts, np.split(tokens_S, ends), strict=True)
        return [row for cohort, ids_S in split for row in cohort.advance(ids_S, self._stopping)]

    def close(self) -> None:
        """Drop the model, so that its memory is free without other references."""
        if self._model is None:
            return
        self._model = None
        if self._device == "cuda":
            torch.cuda.empty_cache()


@contextmanager
def cast_once(model: Any) -> Iterator[None]:
    """Inside an autocast of the caller's, hold the weights of linear layers as it casts them.

    It would cast them again for each token. The head keeps its weights, which it may compute with.
    """
    device, head = model.device.type, model.get_output_embeddings()
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    weights = [w for layer in layers if layer is not head for w in layer.parameters(recurse=False)]
    # keyed by parameter, so that a weight that several layers share is cast once
    before = {w: w.data for w in weights} if torch.is_autocast_enabled(device) else {}
    for weight, data in before.items():
        weight.data = data.to(torch.get_autocast_dtype(device))
    try:
        yield
    finally:
        for weight, data in before.items():
            weight.data = data


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put `model` into evaluation mode for the block, and restore each module's mode."""
    # module by module, because a trainer may freeze some of them: `model.train()` afterwards would
    # switch on their dropout
    modes: Mapping[Any, bool] = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
