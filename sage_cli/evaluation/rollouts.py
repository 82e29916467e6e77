"""Rollouts: whether they can be drawn here as asked, and the sampler that draws them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.rollout import RolloutSection
from sage_cli.errors import SamplingError, TrainingError
from sage_cli.models.architecture import facts_of_path
from sage_cli.models.folders import adapter_base, is_adapter, read_json
from sage_cli.policies.policy import Policy

if TYPE_CHECKING:
    from sage_cli.training.rl_inputs import Draw


def require_rollouts(rollout: RolloutSection, start: Policy, processes: int) -> None:
    """Raise SageError where `processes` that train from `start` can't draw rollouts as said.

    A server is asked which model it serves.
    """
    if not rollout.may_use_vllm:
        return
    from sage_cli.training.rollout_engine import require_heads, settled_engine

    settled = settled_engine(rollout, processes)
    if settled.backend != "vllm":
        return
    require_heads(settled, _heads(start))
    vllm = settled.vllm
    if vllm.server_url is not None and vllm.mode == "server":
        _require_served(vllm.server_url, _whole(start), vllm.server_model)


def sampled_rollouts(rollout: RolloutSection, seed: int, tokenizer: Any) -> Draw:
    """Rollouts drawn by the loop that evaluations draw with, from the policy while it is trained.

    They end where Transformers' `generate` ends them: at end-of-sequence alone. Raises
    TrainingError for a model that the loop can't compute.
    """
    from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
    from sage_cli.sampling.transformers_sampler import TransformersSampler

    parameters = SamplingParameters.from_section(rollout, stop=None)

    def draw(model: Any, prompts: Sequence[list[int]], batch: str, drawn: int) -> list[list[int]]:
        requests = [
            (SampleRequest(batch, "", (drawn + place,), seed), tuple(ids))
            for place, ids in enumerate(prompts)
        ]
        found: list[list[int]] = [[]] * len(prompts)
        sampler = TransformersSampler(model, tokenizer, parameters, len(prompts))
        try:
            for completion in sampler.sample_ids(requests):
                found[completion.index - drawn] = list(completion.token_ids or ())
        except SamplingError as error:
            raise TrainingError(error.cause, "use --set rollout.backend=transformers") from error
        return found

    return draw


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
