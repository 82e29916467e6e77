"""Other choices in a configuration that is complete: what each brings along, and takes away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sage_cli.config.algorithms import algorithm_layer, kl_of
from sage_cli.config.compat import OFFICIAL, official_settings
from sage_cli.config.layers import Layer, Merged, chosen_for_compat, leaves, merge
from sage_cli.config.preset_of import guide_settings
from sage_cli.config.schema import SageConfig

CHOOSING = ("guide.name", "rl.algo", "model.kind")
"""Settings that other settings follow."""


def rechosen(config: SageConfig, settings: Mapping[str, Any]) -> Merged:
    """`config` with other values for dotted settings, as if they had been typed with it.

    Another guide takes the values that the model's preset has for it, another algorithm its row
    of the table. What the configuration says against its own algorithm's row was said on purpose
    and stays; so does a KL other than the one that follows from guide and algorithm.
    """
    now = config.model_dump(mode="json")
    flat = dict(leaves(now))
    changing = {key for key in CHOOSING if key in settings and settings[key] != flat.get(key)}
    if not changing:
        merged = Merged(now)
        for name, value in settings.items():
            merged.put({name: value}, "changed")
        return merged
    row = dict(leaves(algorithm_layer(config.rl.algo)))
    changed = {key: flat[key] for key, value in row.items() if flat[key] != value}
    led = _led(config, flat)
    layers = [Layer("configuration", _nested({k: v for k, v in flat.items() if k not in led}))]
    if "guide.name" in changing:
        guide = str(settings["guide.name"])
        preset, values = guide_settings(config, guide)
        layers += [Layer(f"preset {preset}", {"guides": {guide: values}})] if values else []
    return merge([*layers, Layer("changed", _nested({**changed, **settings}))])


def _led(config: SageConfig, flat: Mapping[str, Any]) -> set[str]:
    """The settings that have the value to which the configuration's choices lead by themselves."""
    rl = config.rl
    led = {"anchor.kl": kl_of(rl.algo, guided=config.guide.name != "none")}
    if rl.compat == OFFICIAL:
        led |= official_settings(chosen_for_compat(Merged(config.model_dump(mode="json"))))
    return {key for key, value in led.items() if flat.get(key) == value}


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    merged = Merged()
    merged.put(flat, "")
    return merged.values
