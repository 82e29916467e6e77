"""What rollouts and samples share: temperature, limits, arguments of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sage_cli.json_value import is_number
from sage_cli.settings.section import Section

DECIDED_ELSEWHERE = {
    "model": "the command's model",
    "tokenizer": "the command's model",
    "tokenizer_mode": "the command's model",
    "tokenizer_revision": "model.revision",
    "code_revision": "model.revision",
    "dtype": "model.dtype",
    "seed": "evaluation.seed",
    "revision": "model.revision",
    "trust_remote_code": "model.trust_remote_code",
    "max_num_seqs": "sampling.batch_rows",
    "data_parallel_size": "one command a GPU, or servers",
    "generation_config": "the settings of `sampling`",
    "override_generation_config": "the settings of `sampling`",
    "enable_lora": "the adapter itself",
    "max_lora_rank": "the adapter itself",
}
"""Arguments of the engine that other settings decide."""
OF_ANOTHER_MODEL = (
    "quantization",
    "quantization_config",
    "kv_cache_dtype",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "disable_sliding_window",
    "hf_overrides",
    "hf_config_path",
    "model_class_overrides",
    "lora_dtype",
    "lora_target_modules",
    "logits_processors",
    "watermark_config",
    "load_format",
    "model_impl",
)
"""Arguments that would have another model, or distribution, sampled from under this one's name."""


def engine_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return the problems of `sampling.vllm`, one sentence each; unknown keys are left to vLLM."""
    problems = [
        f"vllm.{name} is decided by {DECIDED_ELSEWHERE[name]}: leave it out"
        for name in settings
        if name in DECIDED_ELSEWHERE
    ]
    problems += [
        f"vllm.{name} changes what is sampled, and its samples would be kept as the stored "
        "model's: save the changed model and measure that"
        for name in settings
        if name in OF_ANOTHER_MODEL
    ]
    share = settings.get("gpu_memory_utilization", 0.9)
    if not is_number(share) or not 0 < share <= 1:
        problems.append(
            f"vllm.gpu_memory_utilization {share} isn't a share of the GPU's memory, in (0, 1]"
        )
    for name in ("tensor_parallel_size", "max_model_len"):
        value = settings.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            problems.append(f"vllm.{name} {value} isn't a whole number of at least 1")
    return problems


class DecodingSection(Section):
    """The distribution that tokens are sampled from, and how many at most."""

    temperature: float = Field(1.0, ge=0)
    """Sampling temperature; 0 means greedy decoding."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus sampling: tokens are sampled from the smallest set with this probability; 1 turns it
    off."""
    top_k: int = Field(0, ge=0)
    """Number of most likely tokens that are sampled from; 0 turns this off."""
    min_p: float = Field(0.01, ge=0, lt=1)
    """Smallest probability of a token that can be sampled, as a share of the most likely token's; 0
    turns this off."""
    max_tokens: int = Field(2048, ge=1)
    """Length at which a completion is truncated, in tokens."""

    @property
    def truncates(self) -> bool:
        """Return True if min_p, top_p or top_k exclude tokens."""
        return self.min_p > 0 or self.top_p < 1 or self.top_k > 0
