"""Whether the rollouts that are asked for can be drawn here: told before anything is written."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.rollout import RolloutSection
from sage_cli.models.architecture import facts_of_path
from sage_cli.models.folders import adapter_base, is_adapter, read_json
from sage_cli.policies.policy import Policy


def require_rollouts(rollout: RolloutSection, start: Policy, processes: int) -> None:
    """Raise SageError where `processes` that train from `start` can't draw rollouts as said.

    A server is asked which model it serves.
    """
    if rollout.backend == "transformers":
        return
    from sage_cli.training.rollout_engine import require_heads, settled_engine

    settled = settled_engine(rollout, processes)
    if settled.backend != "vllm":
        return
    require_heads(settled, _heads(start))
    vllm = settled.vllm
    if vllm.server_url is not None and vllm.mode == "server":
        _require_served(vllm.server_url, _whole(start), vllm.server_model)


def _whole(start: Policy) -> str:
    """The model that an engine loads: below the adapter, where there is one."""
    folder = Path(start.path)
    return adapter_base(folder) if is_adapter(folder) else start.path


def _heads(start: Policy) -> int | None:
    heads = facts_of_path(_whole(start)).get("num_attention_heads")
    return heads or read_json(start.files / "config.json").get("num_attention_heads")


def _require_served(url: str, meant: str, named: str | None) -> None:
    """Weights are handed over at every step, but into a model of another make they don't fit."""
    import httpx

    from sage_cli.sampling.served_model import served_model

    with httpx.Client(timeout=10) as client:
        address = url.rstrip("/").removesuffix("/v1")
        served_model(client, address, meant, named, setting="rollout.vllm.server_model")
