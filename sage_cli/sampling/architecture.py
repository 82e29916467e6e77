"""Architectures whose texts depend on more than the keys and values of the tokens before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def obstacles(model: Any, reach: int) -> Iterator[str]:
    """What keeps `model` from being drawn from token by token, after "it ...".

    A state runs along, or positions are encoded by the text's length. `reach` is how many tokens
    the longest text will have been read of: what only changes beyond that is no obstacle.
    """
    config = model.config.get_text_config()
    if getattr(model, "_is_stateful", False):
        yield "keeps a recurrent state beside its attention"
    for rope in _rotary_settings(config):
        kind = rope.get("rope_type")
        if kind not in ("dynamic", "longrope"):
            continue
        # beyond this length all positions are encoded anew, those that were read as well
        still = config.max_position_embeddings
        if kind == "longrope":
            still = rope.get("original_max_position_embeddings", still)
        if reach > still:
            yield (
                f"encodes positions by '{kind}' RoPE, which changes beyond {still} tokens, and a "
                f"text may have {reach}"
            )
    scale = getattr(config, "floor_scale", None)
    if scale is not None and getattr(config, "attn_temperature_tuning", False) and reach >= scale:
        yield f"scales queries beyond {scale} tokens, and a text may have {reach}"


def _rotary_settings(config: Any) -> list[Mapping[str, Any]]:
    """The settings of RoPE, one for each kind of layer that has its own."""
    found = getattr(config, "rope_parameters", None) or {}
    several = found.values() if all(isinstance(one, Mapping) for one in found.values()) else [found]
    return list(several)
