"""A stored configuration in today's words: what earlier releases called otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOT_TAKEN_OVER = {"run": ("name", "tags", "root", "sweep"), "sweep": ("k",)}
"""Settings that a stored configuration may hold and that don't travel with it: where and for what
it was made, and those of earlier releases, none of which changed a run's result."""
TRAINERS_SERVER = "http://0.0.0.0:8000"
"""Where the trainer library looks for a server that isn't named."""


def current(stored: Mapping[str, Any]) -> dict[str, Any]:
    """`stored` without what doesn't travel with it, in today's words."""
    kept = {
        section: {key: v for key, v in inside.items() if key not in NOT_TAKEN_OVER.get(section, ())}
        if isinstance(inside, Mapping)
        else inside
        for section, inside in stored.items()
    }
    sweep = stored.get("sweep")
    if isinstance(sweep, Mapping) and "k" in sweep:  # what objectives were called before
        kept["sweep"]["objective"] = [f"pass@{k}" for k in sweep["k"]]
    rollout = stored.get("rollout")
    if isinstance(rollout, Mapping) and "importance_cap" in rollout:
        kept["rollout"] = _rollout(rollout)
    return kept


def _rollout(before: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM's settings have a section of their own now, and a server's address can be said."""
    now = {**before}
    vllm = {"importance_cap": now.pop("importance_cap")}
    if now.get("backend") == "vllm-server":
        now["backend"] = "vllm"
        vllm |= {"mode": "server", "server_url": TRAINERS_SERVER}
    return {**now, "vllm": vllm}
