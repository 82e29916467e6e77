"""Parts of the GPU's benchmark: tokens a second of each engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gpu_models import (
    Size,
    drawing_parameters,
    random_model,
    sample_requests,
    saved_model,
    tokenizer,
)


def transformers_sampler(size: Size, _: Path) -> dict[str, Any]:
    """Tokens a second of our own decoding loop, recorded as graphs or not, and of `generate`."""
    import torch

    from sage_cli.sampling.decoder import TransformersSampler

    model, requests = random_model(size).eval(), sample_requests(size)
    ids = [tokenizer()(request.prompt)["input_ids"] for request in requests]
    repeated = [row for row, r in zip(ids, requests, strict=True) for _ in r.indices]
    widest = max(map(len, repeated))
    padded = torch.tensor([[0] * (widest - len(row)) + row for row in repeated])
    seen = torch.tensor([[0] * (widest - len(row)) + [1] * len(row) for row in repeated])

    def drawn(max_tokens: int, graphs: bool) -> float:
        parameters = replace(drawing_parameters(size), max_tokens=max_tokens)
        sampler = TransformersSampler(model, tokenizer(), parameters, 256, graphs)
        return float(_drawn(lambda: list(sampler.sample(requests)))["tokens per s"])

    def generated(max_tokens: int) -> float:
        began, inputs = time.perf_counter(), (padded.to(model.device), seen.to(model.device))
        tokens = model.generate(
            inputs[0],
            attention_mask=inputs[1],
            do_sample=True,
            top_k=0,
            min_new_tokens=max_tokens,
            max_new_tokens=max_tokens,
        )
        return tokens[:, widest:].numel() / (time.perf_counter() - began)

    ways = {
        "recorded, tokens per s": partial(drawn, graphs=True),
        "launched, tokens per s": partial(drawn, graphs=False),
        "generate, tokens per s": generated,
    }
    for way in ways.values():
        way(4)  # loads the kernels
    return {name: way(size.new_tokens) for name, way in ways.items()}


def vllm(size: Size, folder: Path) -> dict[str, Any]:
    """Tokens a second of bare `LLM.generate`, and of what `sage passk` does with the engine."""
    import torch

    from sage_cli.evaluation.policy_sampler import fill
    from sage_cli.sampling.sampler import SamplerSetup, sample_seed
    from sage_cli.sampling.vllm_sampler import ON_CPU, VllmSampler
    from sage_cli.settings.sampling import SamplingSection
    from sage_cli.store.sample_set import SampleIdentity, SampleSet

    path, requests = saved_model(size, folder), sample_requests(size)
    common = {"max_model_len": 4096, "enforce_eager": True}
    common |= {} if torch.cuda.is_available() else ON_CPU
    section = SamplingSection(backend="vllm", vllm=common)
    setup = SamplerSetup(path, drawing_parameters(size), section, dtype=size.dtype)
    samples = SampleSet(folder, SampleIdentity("random", "none", {}, 0))
    prompts = {request.problem_id: request.prompt for request in requests}
    with VllmSampler(setup) as sampler:
        list(sampler.sample(requests[:1]))  # warm
        ours = _drawn(
            lambda: (
                fill(samples, prompts, len(requests[0].indices), sampler),
                list(samples.completions()),
            )[1]
        )
    from vllm import LLM, SamplingParams

    bare = LLM(str(path), dtype=size.dtype, max_num_seqs=section.batch_rows, seed=0, **common)
    each = [(r.prompt, sample_seed(0, r.problem_id, i)) for r in requests for i in r.indices]
    params = [SamplingParams(temperature=1.0, max_tokens=size.new_tokens, seed=s) for _, s in each]
    bare.generate([each[0][0]], params[0])
    began = time.perf_counter()
    outputs = bare.generate([text for text, _ in each], params)
    tokens = sum(len(one.outputs[0].token_ids) for one in outputs)
    rate = tokens / (time.perf_counter() - began)
    return {
        "sage, tokens per s": ours["tokens per s"],
        "LLM.generate, tokens per s": rate,
        "sage passk / LLM.generate": ours["tokens per s"] / rate,
    }


def _drawn(draw: Callable[[], list[Any]]) -> dict[str, Any]:
    began = time.perf_counter()
    rows = draw()
    seconds, tokens = time.perf_counter() - began, sum(row.tokens for row in rows)
    return {"completions": len(rows), "tokens per s": tokens / seconds, "seconds": seconds}
