"""From the `sampling` section to a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sage_cli.config.evaluation import SamplingSection
from sage_cli.models.load import load_model, load_tokenizer
from sage_cli.sampling.sampler import Sampler, SamplingParameters
from sage_cli.sampling.transformers_sampler import TransformersSampler


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

    Raises DataError when there is no model or tokenizer, SamplingError when the backend named in
    `section` can't run here.
    """
    loading: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return TransformersSampler(
        load_model(model, dtype=dtype, **loading).to(device).eval(),
        load_tokenizer(model, **loading),
        parameters,
        section.batch_rows,
    )
