"""Rollouts: what refuses a configuration of them, and the sampler of `rollout.backend: sampler`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError, SamplingError, TrainingError
from sage_cli.json_value import json_value
from sage_cli.models.architecture import facts_of_path
from sage_cli.models.folders import adapter_base, is_adapter, read_json
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.passwords import secrets_of
from sage_cli.settings.sections.rollout import NO_SERVER, LogprobsMode, RolloutSection

if TYPE_CHECKING:
    from sage_cli.training.rl_inputs import SampleRollouts


def require_rollouts(rollout: RolloutSection, start: Policy, processes: int) -> None:
    """Raise SageError where `processes` that train from `start` can't sample rollouts so.

    A server is asked which model it serves, and which log-probabilities it returns.
    """
    if not rollout.may_use_vllm:
        return
    from sage_cli.training.rollouts.engine import require_heads, settled_engine

    settled = settled_engine(rollout, processes)
    if settled.backend != "vllm":
        return
    require_heads(settled, _heads(start))
    vllm = settled.vllm
    if vllm.mode == "server":
        if vllm.server_url is None:
            raise ConfigurationError(f"rollout.vllm: {NO_SERVER}")
        if secrets_of(vllm.server_url):  # TRL would ask without it, or keep it in checkpoints
            raise ConfigurationError(
                f"rollout.vllm.server_url {vllm.server_url} was given with a password, and "
                "rollouts are requested without one",
                "let the server listen where only the trainer reaches it, as on 127.0.0.1",
            )
        _require_served(vllm.server_url, _whole(start), vllm.server_model)
        reshaped = settled.truncates or settled.temperature != 1  # else all modes are one
        if vllm.importance_correction != "none" and reshaped:
            _require_logprobs(vllm.server_url, settled.logprobs_mode)


def sampled_rollouts(rollout: RolloutSection, seed: int, tokenizer: Any) -> SampleRollouts:
    """Rollouts of the policy while it is trained, by the loop that samples evaluations.

    They end where Transformers' `generate` ends them: at end-of-sequence alone. Raises
    TrainingError for a model that the loop can't compute.
    """
    from sage_cli.sampling.decoder.transformers_sampler import TransformersSampler
    from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

    parameters = SamplingParameters.from_section(rollout, stop=None)

    def sample(
        model: Any, prompts: Sequence[list[int]], batch: str, sampled: int
    ) -> list[list[int]]:
        requests = [
            (SampleRequest(batch, "", (sampled + place,), seed), tuple(ids))
            for place, ids in enumerate(prompts)
        ]
        found: list[list[int]] = [[]] * len(prompts)
        sampler = TransformersSampler(model, tokenizer, parameters, len(prompts))
        try:
            for completion in sampler.sample_ids(requests):
                found[completion.index - sampled] = list(completion.token_ids or ())
        except SamplingError as error:
            raise TrainingError(error.cause, "use --set rollout.backend=transformers") from error
        return found

    return sample


def _whole(start: Policy) -> str:
    """The model that an engine loads: below the adapter, where there is one."""
    folder = Path(start.path)
    return adapter_base(folder) if is_adapter(folder) else start.path


def _heads(start: Policy) -> int | None:
    heads = facts_of_path(_whole(start)).get("num_attention_heads")
    return heads or read_json(start.files / "config.json").get("num_attention_heads")


def _require_served(url: str, meant: str, named: str | None) -> None:
    """Weights are handed over at every step, but into a model of another make they don't fit."""
    from sage_cli.sampling.server.forms import served_model
    from sage_cli.sampling.server.http import CONNECT_S, Login, ServerHttp

    http = ServerHttp(CONNECT_S)
    try:
        served_model(http, Login.of(url), meant, named, setting="rollout.vllm.server_model")
    finally:
        http.close()


def _require_logprobs(url: str, wanted: LogprobsMode) -> None:
    """The ratio to a server's probabilities is of the distribution that the server was told of.

    A server that doesn't tell is left to TRL, which refuses one without its development mode.
    """
    import httpx

    from sage_cli.sampling.server.http import CONNECT_S, LIST_BYTES, Login, ServerHttp

    http = ServerHttp(CONNECT_S)
    try:
        answer = http.ask(Login.of(url), "/server_info?config_format=json", LIST_BYTES)
        found = json_value(answer.content)["vllm_config"]["model_config"]["logprobs_mode"]
    except (httpx.RequestError, ValueError, LookupError, TypeError):
        return
    finally:
        http.close()
    if found != wanted:
        raise SamplingError(
            f"{url} returns {found}, and the importance ratio of these rollouts needs {wanted}",
            f"start it again with `vllm serve ... --logprobs-mode {wanted}`, or use "
            "--set rollout.vllm.importance_correction=none",
        )
