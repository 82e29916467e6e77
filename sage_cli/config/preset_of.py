"""Which shipped preset was written for a model: a stored configuration doesn't name its own."""

from __future__ import annotations

from collections.abc import Mapping
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
    for name in preset_names():
        layer = read_preset(name)
        if _describes(layer.get("model", {}), model):
            return name, dict(layer.get("guides", {}).get(guide) or {})
    return None, {}


def preset_for(path: str) -> str | None:
    """The first shipped preset of the model at `path`, a name of the Hub."""
    paths = {name: read_preset(name).get("model", {}).get("path") for name in preset_names()}
    return next((name for name, its in paths.items() if its == path), None)


def _describes(named: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """Whether everything a preset says of its model's architecture or path is so."""
    shape = {key: value for key, value in named.items() if key not in _TUNING}
    return bool(shape) and all(model.get(key) == value for key, value in shape.items())
