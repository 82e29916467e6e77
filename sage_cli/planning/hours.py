"""GPU hours, from throughputs that are stated."""

from __future__ import annotations

from sage_cli.settings.sections.model import PretrainedModel, ScratchModel

TOKENS_PER_S = {
    "Qwen/Qwen2.5-Math-7B": (4000, 4000),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": (4000, 4000),
    "Qwen/Qwen2.5-3B-Instruct": (8000, 7000),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": (14000, 12000),
}
"""Tokens a second that one GPU of 80 GB samples, and that it trains on, by model: stated, to tell
hours from weeks, and not measured (`benchmarks/gpu.py` measures them)."""


def gpu_hours(model: PretrainedModel | ScratchModel, *, sampled: int, trained: int = 0) -> float:
    """Hours of one GPU for so many tokens; 0 for a model whose throughput isn't stated."""
    rates = TOKENS_PER_S.get(model.path) if isinstance(model, PretrainedModel) else None
    return (sampled / rates[0] + trained / rates[1]) / 3600 if rates else 0.0


def hours_fact(
    model: PretrainedModel | ScratchModel, *, sampled: int, trained: int = 0
) -> dict[str, str]:
    """The hours in words, with their source; nothing where no throughput is stated."""
    hours = gpu_hours(model, sampled=sampled, trained=trained)
    if not isinstance(model, PretrainedModel) or not hours:
        return {}
    rates = TOKENS_PER_S[model.path]
    training = f", trained on at {rates[1]:,}" if trained else ""
    return {
        "GPU hours": f"{hours:,.1f} at most, if {rates[0]:,} tokens/s are sampled{training} "
        "(stated for 80 GB, not measured)"
    }
