"""The decoding loop: samples whose texts are still equal are computed once, as one row.

At the start all samples of a prompt are one row; where their tokens differ, it splits. A sample's
tokens depend on its own seed alone, so nothing of what follows changes a text: neither the batch
that a sample falls into nor how often it starts again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sage_cli.errors import (
    DivergedError,
    RefusedPromptsError,
    SamplingError,
    is_out_of_memory,
)
from sage_cli.models.loading import context_of, release_memory
from sage_cli.sampling.attention import (
    CohortMemory,
    Indices,
    MemoryModel,
    OwnTokens,
    PrefillMemory,
    PromptMemory,
    SharedPrompts,
    SideBySide,
    fitting_rows,
    ranks,
    threads_for,
)
from sage_cli.sampling.graphs import FixedMemory
from sage_cli.sampling.sampler import (
    Sampler,
    SampleRequest,
    SamplingParameters,
    sample_seed,
    too_long,
)
from sage_cli.sampling.stopping import Ending, Stopping, eos_ids
from sage_cli.splitmix import GOLDEN, mixed, shifted
from sage_cli.store.completion import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase
_CACHED, _BLOCK = 2**21, 128
PREFILL_TOKENS = 4096
"""Tokens of prompts in a forward pass; a longer prompt is computed alone."""
_Ids = tuple[int, ...]
_MIXED_LOGITS = 256
"""Rows times lengths in a pass over prompts of several lengths: so many logits (V,) there are."""
log = logging.getLogger(__name__)
COHORTS = 4
"""Cohorts in flight. One alone fits into a batch even if its samples share no row."""
_Sample = tuple[SampleRequest, _Ids, int]
"""A request, its prompt's token ids, and an index."""


def sample_uniforms(
    seeds_S: np.ndarray[Any, np.dtype[np.uint64]], steps_S: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a number in [0, 1 - 2^-52] per sample, a function of its seed and step alone.

    It is the step-th output of SplitMix64 from the seed.
    """
    # SplitMix64's n-th output is the mixing function at seed + (n + 1) * GOLDEN, so that a step's
    # number needs no earlier one: a sample that starts again, or alone, draws the same numbers. The
    # sum overflows on purpose: SplitMix64 counts modulo 2^64.
    z_S = mixed(seeds_S.view(np.int64) + (steps_S + 1) * GOLDEN)
    # 52 bits: the upper ones are the best mixed, and a float64 in [1/2, 1) has a resolution of
    # 2^-53, so that no number is rounded to 1, behind which inversion would find no token
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]] = np.ldexp(shifted(z_S, 12), -52)
    return uniforms_S


def choose_by_sample(
    logits_BV: Tensor,
    rows_S: Indices,
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]],
    p: SamplingParameters,
) -> Indices:
    """Return token ids (S,). Samples may share rows: `rows_S` is each sample's row."""
    ranks_S, most = ranks(rows_S, len(logits_BV))
    # samples that share a row differ in their number alone: a row's softmax and its cumulative sum
    # are computed once, and searched once for each of its samples
    uniforms_BN = np.zeros((len(logits_BV), most))
    uniforms_BN[rows_S, ranks_S] = uniforms_S
    tokens_S: Indices = choose(logits_BV, uniforms_BN, p).cpu().numpy()[rows_S, ranks_S]
    return tokens_S


def choose(
    logits_BV: Tensor, uniforms_BN: np.ndarray[Any, np.dtype[np.float64]], p: SamplingParameters
) -> Tensor:
    """Return N token ids per row, (B, N), by inverting its cumulative distribution at each number.

    Temperature, top-k, top-p and min-p are applied in the order of transformers' `generate`. At
    temperature 0 the first of the most likely tokens is chosen. Raises DivergedError if a logit
    that decides is NaN or infinite.
    """
    require_finite_logits(logits_BV)
    if p.temperature == 0:
        # argmax returns the first of equal logits, whatever the batch is; at temperature 0 all
        # samples of a row stay one row, and cost as much as one
        return logits_BV.argmax(dim=-1, keepdim=True).expand(uniforms_BN.shape)
    numbers_BN = torch.from_numpy(uniforms_BN).to(logits_BV.device)
    # on a CPU a few rows at a time, whose weights stay in its cache
    rows = len(logits_BV) if logits_BV.is_cuda else max(1, _CACHED // logits_BV.shape[-1])
    parts = zip(torch.split(logits_BV, rows), torch.split(numbers_BN, rows), strict=True)
    return torch.cat([_inverted(kept_weights(logits, p), numbers) for logits, numbers in parts])


def _inverted(weights_BV: Tensor, numbers_BN: Tensor) -> Tensor:
    """Return the first token whose cumulative weight exceeds each number of the total, (B, N).

    A large vocabulary is summed by blocks of tokens: cumulative weights are needed in one of them.
    """
    vocabulary = weights_BV.shape[-1]
    if vocabulary < _BLOCK**2:
        # in float32 the cumulative sum of 150,000 weights stops growing where a weight is below the
        # sum's last bit: the rarest tokens could not be chosen at all
        ends_BV = weights_BV.cumsum(dim=-1, dtype=torch.float64)
        # right=True: the first token whose end exceeds the number, so that a token of weight 0,
        # whose end equals the one before, is never chosen, not even by the number 0. The total
        # scales the number instead of the weights, which saves a division per token.
        return torch.searchsorted(ends_BV, numbers_BN * ends_BV[:, -1:], right=True)
    if vocabulary % _BLOCK:
        # padding has weight 0, so that it is never chosen
        weights_BV = pad(weights_BV, (0, -vocabulary % _BLOCK))
    blocks_BKC = weights_BV.view(len(weights_BV), -1, _BLOCK)
    ends_BK = blocks_BKC.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    targets_BN = numbers_BN * ends_BK[:, -1:]
    chosen_BN = torch.searchsorted(ends_BK, targets_BN, right=True)
    # what is left of the number once the blocks before the chosen one are subtracted
    left_BN = targets_BN - pad(ends_BK, (1, 0)).gather(1, chosen_BN)
    block_BNC = blocks_BKC.gather(1, chosen_BN[..., None].expand(-1, -1, _BLOCK))
    ends_BNC = block_BNC.cumsum(dim=-1, dtype=torch.float64)
    # a block's sum and its last cumulative weight are rounded differently: no token lies behind it
    left_BN1 = torch.minimum(left_BN[..., None], ends_BNC[..., -1:] * (1 - 2**-52))
    return chosen_BN * _BLOCK + torch.searchsorted(ends_BNC, left_BN1, right=True)[..., 0]


def require_finite_logits(logits_BV: Tensor) -> None:
    """Raise DivergedError if a row's largest logit is NaN or infinite; -inf below it is allowed."""
    if not logits_BV.amax(dim=-1).isfinite().all():
        raise DivergedError(
            "the model's logits for the next token are NaN or infinite: its weights "
            "are not finite, or overflow",
            "a lower learning rate may help in training; a checkpoint before the "
            "divergence can still be used",
        )


def kept_weights(logits_BV: Tensor, p: SamplingParameters) -> Tensor:
    """Return the tokens' weights at a positive temperature, the largest 1, and 0 for those cut."""
    # float32 before the division: in bfloat16, with 8 bits, neighbouring logits of a large
    # vocabulary would become equal
    logits_BV = logits_BV.float() / p.temperature
    weights_BV = (logits_BV - logits_BV.amax(dim=-1, keepdim=True)).exp_()
    if 0 < p.top_k < weights_BV.shape[-1]:
        # tokens as likely as the k-th stay, even if these are more than k: `generate` does so, too,
        # and the choice among them would otherwise depend on the order of a sort
        kth_B1 = weights_BV.topk(p.top_k, dim=-1).values[:, -1:]
        weights_BV.masked_fill_(weights_BV < kth_B1, 0.0)
    if p.top_p < 1:
        weights_BV = _nucleus(weights_BV, p.top_p)
    if p.min_p > 0:
        weights_BV.masked_fill_(weights_BV < p.min_p, 0.0)  # the largest weight is 1
    return weights_BV


def _nucleus(weights_BV: Tensor, top_p: float) -> Tensor:
    """Return the weights of the most likely tokens whose mass reaches `top_p`, 0 for the others."""
    sorted_BV, order_BV = weights_BV.sort(dim=-1, descending=True, stable=True)
    # a token is kept if the mass before it is below top_p, so that the token that crosses the
    # threshold is kept, and at least one is
    before_BV = sorted_BV.cumsum(dim=-1, dtype=torch.float64) - sorted_BV
    outside_BV = before_BV >= top_p * sorted_BV.sum(dim=-1, keepdim=True, dtype=torch.float64)
    return weights_BV.scatter(-1, order_BV, sorted_BV.masked_fill(outside_BV, 0.0))


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt after its prefill: its memory and the logits (V,) after its last token."""

    ids: _Ids
    memory: PromptMemory
    logits_V: Tensor


def prefill(
    model: MemoryModel, needed: Collection[_Ids], cached: Mapping[_Ids, Prompt], mixed: bool = False
) -> dict[_Ids, Prompt]:
    """Return the wanted prompts by their token ids, after the prefill of those not in `cached`.

    With `mixed`, prompts of several lengths are padded to one pass.

    Raises SamplingError for a model whose attention cannot be replaced.
    """
    prompts = {ids: cached[ids] for ids in needed if ids in cached}
    # sorted by length, so that prompts of one length are neighbours and need no padding
    missing = sorted((ids for ids in needed if ids not in cached), key=len)
    for batch in _batches(missing, mixed):
        prompts |= {prompt.ids: prompt for prompt in _prefilled(model, batch)}
    return prompts


def _batches(prompts: Sequence[_Ids], mixed: bool) -> Iterator[list[_Ids]]:
    """Yield the prompts, which are sorted by length, in batches; of one length unless `mixed`."""
    batch: list[_Ids] = []
    lengths: set[int] = set()
    for ids in prompts:
        rows, lengths = len(batch) + 1, lengths | {len(ids)}
        # the head computes each row's logits after each of the lengths
        unequal = len(lengths) > 1 and (not mixed or rows * len(lengths) > _MIXED_LOGITS)
        if batch and (unequal or rows * len(ids) > PREFILL_TOKENS):
            yield batch
            batch, lengths = [], {len(ids)}
        batch.append(ids)
    if batch:
        yield batch


def _prefilled(model: MemoryModel, batch: list[_Ids]) -> Iterator[Prompt]:
    """Yield prompts, the longest last, computed in one forward pass."""
    memory, lengths = PrefillMemory(), [len(ids) for ids in batch]
    # padding on the right: positions count from 0 without a shift, and a causal mask hides what
    # follows a prompt, so that it needs no mask of its own
    padded = [(*ids, *[0] * (lengths[-1] - len(ids))) for ids in batch]
    ids_BT = torch.tensor(padded, device=model.device)
    logits_BV = model.logits(memory, ids_BT, lengths if lengths[0] < lengths[-1] else None)
    if memory.order != list(range(model.layers)):  # layers were skipped or repeated
        raise model.unfit("has layers whose attention can't be replaced")
    memories = memory.prompts(lengths)
    for ids, prompt, logits_V in zip(batch, memories, logits_BV, strict=True):
        yield Prompt(ids, prompt, logits_V)


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


class _Flight:
    """Waiting samples, and the cohorts in flight with at most `rows` rows together.

    `most` bounds the samples in flight. It starts at several times `rows`, because samples that
    share rows cost nothing more, and is halved whenever too few do. With `fixed` memory one cohort
    is in flight, with at most a sample for each row.
    """

    def __init__(
        self, tokenized: Sequence[tuple[SampleRequest, _Ids]], rows: int, fixed: bool
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
        self.prompts: dict[_Ids, Prompt] = {}
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

    def sample_ids(self, tokenized: Sequence[tuple[SampleRequest, _Ids]]) -> Iterator[Completion]:
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

    def _decoded(self, tokenized: Sequence[tuple[SampleRequest, _Ids]]) -> Iterator[Completion]:
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
        tokenized: Sequence[tuple[SampleRequest, _Ids]],
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
