"""From the `sampling` section to a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sage_cli.config.sampling import SamplingSection
from sage_cli.models.load import load_model, load_tokenizer
from sage_cli.sampling.sampler import Sampler, SamplingParameters
from sage_cli.sampling.server_sampler import ServerSampler
from sage_cli.sampling.transformers_sampler import TransformersSampler
from sage_cli.sampling.vllm_sampler import VllmSampler, vllm_obstacle


def build_sampler(
    section: SamplingSection,
    parameters: SamplingParameters,
    model: str | Path,
    *,
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Sampler:
    """Load `model` (a folder, with its LoRA adapter where it holds one, or a Hub name) to sample.

    Backend `server` loads nothing: what its endpoints serve is the user's word. Raises DataError
    when there is no model or tokenizer, SamplingError when the backend can't run here.
    """
    backend = chosen_backend(section)
    if backend == "server":
        return ServerSampler(
            section.servers,
            parameters,
            model=section.server_model,
            in_flight=section.batch_rows,
            timeout_s=section.timeout_s,
        )
    loading: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    tokenizer = load_tokenizer(model, **loading)
    if backend == "vllm":
        return VllmSampler(
            model, tokenizer, parameters, rows=section.batch_rows, dtype=dtype, **loading
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded = load_model(model, dtype=dtype, **loading).to(device).eval()
    return TransformersSampler(loaded, tokenizer, parameters, section.batch_rows)


def chosen_backend(section: SamplingSection) -> str:
    """What `auto` stands for: the servers if any are named, vLLM on a GPU, else transformers."""
    if section.backend != "auto":
        return section.backend
    if section.servers:
        return "server"
    return "vllm" if torch.cuda.is_available() and vllm_obstacle() is None else "transformers"
