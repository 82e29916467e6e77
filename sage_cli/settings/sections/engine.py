"""`sampling.vllm`: what is handed on to vLLM's engine, and what isn't its user's to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "data_parallel_size": "sampling.data_parallel",
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
    found = [
        f"vllm.{name} is decided by {DECIDED_ELSEWHERE[name]}: leave it out"
        for name in settings
        if name in DECIDED_ELSEWHERE
    ]
    found += [
        f"vllm.{name} changes what is sampled, and its samples would be kept as the stored "
        "model's: save the changed model and measure that"
        for name in settings
        if name in OF_ANOTHER_MODEL
    ]
    share = settings.get("gpu_memory_utilization", 0.9)
    if not _is_number(share) or not 0 < share <= 1:
        found.append(
            f"vllm.gpu_memory_utilization {share} isn't a share of the GPU's memory, in (0, 1]"
        )
    for name in ("tensor_parallel_size", "max_model_len"):
        value = settings.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            found.append(f"vllm.{name} {value} isn't a whole number of at least 1")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
