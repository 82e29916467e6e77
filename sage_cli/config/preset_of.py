"""Which shipped preset was written for a model: a stored configuration doesn't name its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sage_cli.config.presets import preset_names, read_preset
from sage_cli.config.schema import SageConfig

_TUNING = ("tuning", "lora", "dtype", "compute_dtype")


def guide_settings(config: SageConfig, guide: str) -> tuple[str | None, dict[str, Any]]:
    """The preset of the configuration's model and what it says for `guide`.

    (None, {}) where no shipped preset has that model: the paper's values, the schema's defaults,
    apply then.
    """
    model = config.model.model_dump(mode="json")
    for name, layer in _shipped().items():
        if _describes(layer.get("model", {}), model):
            return name, dict(layer.get("guides", {}).get(guide) or {})
    return None, {}


def preset_for(path: str) -> str | None:
    """The first shipped preset of the model at `path`, a name of the Hub."""
    paths = {name: layer.get("model", {}).get("path") for name, layer in _shipped().items()}
    return next((name for name, its in paths.items() if its == path), None)


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    """The shipped presets by name: a sweep asks for those of every cell's guide."""
    return {name: read_preset(name) for name in preset_names()}


def _describes(named: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Whether everything a preset says of its model's architecture or path is so."""
    shape = {key: value for key, value in named.items() if key not in _TUNING}
    return bool(shape) and all(model.get(key) == value for key, value in shape.items())
