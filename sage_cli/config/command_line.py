"""From a configuration to the options that would make it: the other way of `config/load.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from sage_cli.config.layers import leaves
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.settings.presets import preset_names, yaml_value

OF_RL = ("model", "prompt", "data", "sft", "rl", "rollout", "anchor", "guide", "grading")
"""The sections that decide which run `sage rl` trains."""
_ABSENT = object()


def options_for(config: SageConfig) -> tuple[str, ...] | None:
    """The words that make what `sage rl` reads of `config`: a preset, choices, and settings.

    The preset is the one that leaves the least to be said. None where no words make them: `--set`
    can't take away an entry of a mapping that a preset has.
    """
    flags: dict[str, dict[str, str]] = {"rl": {"algo": config.rl.algo}}
    if config.rl.compat != "none":
        flags["rl"]["compat"] = config.rl.compat
    if config.guide.name != "none":
        flags["guide"] = {"name": config.guide.name}
    guide = flags.get("guide", {}).get("name")
    named = {"algo": config.rl.algo, "compat": flags["rl"].get("compat"), "guide": guide}
    choices = [word for name, value in named.items() if value for word in (f"--{name}", value)]
    found = []
    for preset in preset_names():
        sets = _sets(config, preset, flags)
        if sets is not None and _differing(config, _loaded(preset, flags, sets)) == []:
            words = [word for one in sets for word in ("--set", one)]
            found.append(("--preset", preset, *choices, *words))
    return min(found, key=len, default=None)


def typed(value: object) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, str):
        try:
            return value if yaml_value(value) == value else json.dumps(value)
        except yaml.YAMLError:
            return json.dumps(value)
    return json.dumps(value)


def _sets(config: SageConfig, preset: str, flags: Mapping[str, Any]) -> list[str] | None:
    """Return the settings to add to a preset and the choices; None if they contradict."""
    sets: list[str] = []
    for _ in range(3):  # a setting such as model.kind brings others along
        made = _loaded(preset, flags, sets)
        if made is None:
            return None
        differing = _differing(config, made)
        if not differing:
            return sets
        sets += [f"{key}={typed(value)}" for key, value in differing]
    return sets


def _differing(config: SageConfig, made: SageConfig | None) -> list[tuple[str, Any]]:
    """The settings of `config` that `made` has otherwise; those that it has too many are none."""
    if made is None:
        return [("", None)]
    has, wanted = dict(_settings(made)), dict(_settings(config))
    missing = [(key, value) for key, value in wanted.items() if has.get(key, _ABSENT) != value]
    return missing or [(key, None) for key in has if key not in wanted]


def _settings(config: SageConfig) -> Iterator[tuple[str, Any]]:
    return leaves(config.model_dump(mode="json", include=set(OF_RL)))


def _loaded(preset: str, flags: Mapping[str, Any], sets: Sequence[str]) -> SageConfig | None:
    try:
        return load([preset], flags, sets).config
    except ConfigurationError:
        return None
