"""The default backend without a GPU server: any causal model of transformers, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
import transformers

from sage_cli.sampling.sampler import SampleRequest, SamplingParameters, sample_seed
from sage_cli.store.completion import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TransformersSampler:
    """Samples from a model and tokenizer already loaded (with LoRA adapters or without)."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        parameters: SamplingParameters,
        batch_rows: int = 256,
    ) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._parameters, self._batch_rows = parameters, batch_rows

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions."""
        return {
            "engine": f"transformers {transformers.__version__}",
            "torch": torch.__version__,
            "device": self._model.device.type,
        }

    @torch.inference_mode()
    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions batch by batch, problems sorted by prompt length."""
        rows = [
            (request, index)
            for request in sorted(requests, key=lambda request: len(request.prompt))
            for index in request.indices
        ]
        for start in range(0, len(rows), self._batch_rows):
            yield from self._batch(rows[start : start + self._batch_rows])

    def _batch(self, rows: list[tuple[SampleRequest, int]]) -> Iterator[Completion]:
        parameters, tokenizer = self._parameters, self._tokenizer
        batch = tokenizer(
            [request.prompt for request, _ in rows],
            return_tensors="pt",
            padding=True,
            padding_side="left",
            add_special_tokens=False,
        ).to(self._model.device)
        sampled = parameters.temperature > 0
        torch.manual_seed(sample_seed(parameters.seed, rows[0][0].problem_id, rows[0][1]))
        output_BT = self._model.generate(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            do_sample=sampled,
            temperature=parameters.temperature if sampled else None,
            top_p=parameters.top_p if sampled else None,
            top_k=parameters.top_k if sampled else None,
            min_p=parameters.min_p if sampled else None,
            max_new_tokens=parameters.max_tokens,
            stop_strings=parameters.stop,
            tokenizer=tokenizer,
            pad_token_id=tokenizer.pad_token_id,
        )
        for (request, index), ids_T in zip(
            rows, output_BT[:, batch.input_ids.shape[1] :].tolist(), strict=True
        ):
            ended = tokenizer.eos_token_id in ids_T
            if ended:
                ids_T = ids_T[: ids_T.index(tokenizer.eos_token_id) + 1]
            text = tokenizer.decode(
                ids_T, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            if parameters.stop is not None and parameters.stop in text:
                text, ended = text[: text.index(parameters.stop) + len(parameters.stop)], True
            reason = "stop" if ended else "length"
            yield Completion(request.problem_id, index, parameters.seed, text, len(ids_T), reason)
