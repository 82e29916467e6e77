"""Reads stored configurations without the settings that only the person who types may give."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sage_cli.config.layers import leaves
from sage_cli.settings.sections.sampling import DecodingSection, SamplingSection

_KEPT_OF_SAMPLING = {*DecodingSection.model_fields, "stop_at_answer", "batch_rows", "data_parallel",
                     "vllm.tensor_parallel_size", "vllm.max_model_len",
                     "vllm.gpu_memory_utilization"}  # fmt: skip
SERVICES: Mapping[str, Mapping[str, Any]] = {
    "sampling": {
        name: usual
        for name, usual in SamplingSection().model_dump(mode="json").items()
        if name not in _KEPT_OF_SAMPLING
    },
    "rollout": {"vllm.server_url": None, "vllm.server_model": None},
    "sweep": {"storage": None},
    "executor": {"address": None, "lines": {}, "setup": []},
}
"""By section, the settings that name servers, databases and clusters, or what is done there, with
their defaults. Runs are copied between people, so a stored file never decides where requests, keys
and commands go: these settings are typed, or said in a preset that is named."""
NOT_TAKEN_OVER = {"run": ("root", "sweep")}
"""Settings that do not travel with a stored configuration: where and for what it was made."""


def current(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return `stored` without services and without what does not travel with it."""
    kept = {
        section: _without(section, inside, NOT_TAKEN_OVER.get(section, ()))
        if isinstance(inside, Mapping)
        else inside
        for section, inside in stored.items()
    }
    tracking = kept.get("tracking")
    if isinstance(tracking, Mapping) and tracking.get("wandb") == "online":  # a run may be copied
        kept["tracking"] = {**tracking, "wandb": "offline"}
    return kept


def without_services(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration, nested by section, that names no server, database or cluster."""
    return {
        section: _without(section, inside, ()) if isinstance(inside, Mapping) else inside
        for section, inside in values.items()
    }


def service_words(
    values: Mapping[str, Any], sections: Sequence[str] = tuple(SERVICES)
) -> list[str]:
    """Return the words that say the services of a configuration again: `--set`, `name=value`, ...

    `values` is nested by section, with or without defaults.
    """
    return [
        word
        for section in sections
        for name, value in leaves(values.get(section) or {})
        if _names_a_service(section, name) and value != SERVICES[section].get(name, {})
        for word in ("--set", f"{section}.{name}={json.dumps(value, ensure_ascii=False)}")
    ]


def _without(
    section: str, inside: Mapping[str, Any], left_out: Sequence[str], above: str = ""
) -> dict[str, Any]:
    """Return the settings of a section, or of a part of it, but services and `left_out`."""
    kept: dict[str, Any] = {}
    for key, value in inside.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            if rest := _without(section, value, left_out, f"{name}."):
                kept[key] = rest
        elif name not in left_out and not _names_a_service(section, name):
            kept[key] = value
    return kept


def _names_a_service(section: str, name: str) -> bool:
    """Return True if a setting is one of `SERVICES` or lies inside one."""
    if section == "sampling" and name in _KEPT_OF_SAMPLING:
        return False
    return any(f"{name}.".startswith(f"{one}.") for one in SERVICES.get(section, ()))
