"""Why our decoder can't sample from a model, as far as its config.json tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_WINDOWS = ("sliding_attention", "chunked_attention")


def length_obstacles(config: Mapping[str, Any], reach: int) -> Iterator[str]:
    """Yield why texts of `reach` tokens depend on their length by more than earlier tokens."""
    ropes = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # some models have one set of RoPE settings per type of layer
    by_layer = all(isinstance(settings, Mapping) for settings in ropes.values())
    for rope in ropes.values() if by_layer else [ropes]:
        kind = rope.get("rope_type") or rope.get("type")
        # beyond this length the encoding of all positions changes, also of stored keys
        unchanged = config.get("max_position_embeddings", reach)
        if kind == "longrope":
            unchanged = rope.get("original_max_position_embeddings", unchanged)
        if kind in ("dynamic", "longrope") and reach > unchanged:
            yield (
                f"encodes positions by '{kind}' RoPE, which changes beyond {unchanged} tokens, and "
                f"a text may have {reach}"
            )
    scale = config.get("floor_scale")
    if scale is not None and config.get("attn_temperature_tuning") and reach >= scale:
        yield f"scales queries beyond {scale} tokens, and a text may have {reach}"


def planned_obstacles(config: Mapping[str, Any], reach: int) -> Iterator[str]:
    """Yield why our decoder can't sample from a model, as far as its config.json tells.

    The decoder itself asks the model, layer by layer.
    """
    if config.get("attn_logit_softcapping") is not None:
        yield "attends with 'softcap'"
    if config.get("model_type") == "gpt_oss":
        yield "attends with sinks"
    layers = config.get("layer_types") or _WINDOWS
    if {"linear_attention", "mamba"} & {*layers}:
        yield "keeps a recurrent state beside its attention"
    window = config.get("sliding_window") or config.get("attention_chunk_size")
    used = config.get("use_sliding_window", True) and {*_WINDOWS} & {*layers}
    if window is not None and used and window < reach:
        yield f"attends in windows or chunks of {window} tokens, and a text may have {reach}"
    yield from length_obstacles(config, reach)
