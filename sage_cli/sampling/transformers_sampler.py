"""The default backend without a GPU server: any causal model of transformers, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch

from sage_cli.errors import SamplingError
from sage_cli.sampling.attention import MemoryModel, fitting_rows, threads_for
from sage_cli.sampling.decoder import Decoder, Ids, Stopping
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplingParameters
from sage_cli.store.sample_parts import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TransformersSampler(Sampler):
    """Samples from a loaded model, with or without LoRA adapters, and its tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        parameters: SamplingParameters,
        batch_rows: int = 256,
    ) -> None:
        self._model, self._tokenizer, self._device = model, tokenizer, model.device.type
        self._max_tokens = parameters.max_tokens
        stopping = Stopping(
            tokenizer,
            _eos_ids(model, tokenizer),
            model.config.get_text_config().vocab_size,
            parameters.stop,
            parameters.max_tokens,
        )
        self._decoder = Decoder(stopping, parameters, batch_rows)

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

    def sample_ids(self, tokenized: Sequence[tuple[SampleRequest, Ids]]) -> Iterator[Completion]:
        """Yield completions of prompts given as token ids, instead of the requests' texts."""
        if self._model is None:
            raise SamplingError("the transformers sampler was closed")
        tokenized = sorted(tokenized, key=lambda pair: (len(pair[1]), pair[1]))
        if not tokenized[0][1]:
            raise SamplingError(f"the prompt of problem {tokenized[0][0].problem_id} is empty")
        # the last sampled token is not an input
        reach = len(tokenized[-1][1]) + self._max_tokens - 1
        model = MemoryModel(self._model, reach)
        fitting = fitting_rows(self._model, len(tokenized[-1][1]), self._max_tokens)
        with without_dropout(self._model), model.attending(), threads_for(self._model):
            for ended in self._decoder.run(model, tokenized, fitting):
                yield from ended

    def close(self) -> None:
        """Drop the model, so that its memory is free without other references."""
        if self._model is None:
            return
        self._model = None
        if self._device == "cuda":
            torch.cuda.empty_cache()


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put `model` into evaluation mode for the block, and restore each module's mode."""
    modes: Mapping[Any, bool] = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _eos_ids(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the end-of-sequence ids of the tokenizer and of the model's generation settings."""
    of_model = getattr(model.generation_config, "eos_token_id", None)
    ids = of_model if isinstance(of_model, list) else [of_model]
    return sorted({token for token in (*ids, tokenizer.eos_token_id) if token is not None})
