"""Rollouts that can't be drawn are refused before a model is loaded."""

import json

import pytest
import torch
from endpoint import Endpoint, serving

from sage_cli.errors import ConfigurationError, SamplingError
from sage_cli.models.policy import Policy
from sage_cli.settings.passwords import VARIABLE
from sage_cli.settings.sections.sampling import SERVER_URL, RolloutSection
from sage_cli.training import rollout_engine
from sage_cli.training.rollouts import require_rollouts


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A model of 6 heads, on a machine with a GPU and vLLM."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(rollout_engine, "find_spec", lambda _: object())
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 6}))
    return Policy(str(tmp_path))


def by_vllm(min_p=0.01, temperature=1.0, **settings):
    said = {"backend": "vllm", "min_p": min_p, "temperature": temperature, "vllm": settings}
    return RolloutSection.model_validate(said)


def test_heads_that_cannot_be_dealt_out(start, tmp_path):
    require_rollouts(by_vllm(tensor_parallel=2), start, 4)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    said = {"base_model_name_or_path": start.path}
    (adapter / "adapter_config.json").write_text(json.dumps(said))
    for policy in (start, Policy(str(adapter))):  # an adapter has its base's heads
        with pytest.raises(ConfigurationError, match="4 doesn't divide the model's 6"):
            require_rollouts(by_vllm(tensor_parallel=4), policy, 4)


def test_a_server_that_serves_another_model_is_refused(start):
    endpoint = Endpoint(models=[{"id": "other", "root": "models/other"}])
    with serving(endpoint):
        server = {"mode": "server", "server_url": endpoint.address}
        with pytest.raises(SamplingError, match=r"serves other, and .* is meant") as caught:
            require_rollouts(by_vllm(**server), start, 1)
        assert "--set rollout.vllm.server_model=other" in str(caught.value.next_step)
        require_rollouts(by_vllm(**server, server_model="other"), start, 1)
        endpoint.models = [{"id": "policy", "root": start.path}]
        require_rollouts(by_vllm(**server), start, 1)
    with pytest.raises(SamplingError, match=r"127\.0\.0\.1:\d+ didn't answer"):
        require_rollouts(by_vllm(**server), start, 1)


def test_a_server_whose_probabilities_are_of_another_distribution_is_refused(start):
    endpoint = Endpoint(models=[{"id": "policy", "root": start.path}])
    with serving(endpoint):
        server = {"mode": "server", "server_url": f"{endpoint.address}/v1"}
        require_rollouts(by_vllm(**server), start, 1)  # it doesn't tell, which TRL refuses
        endpoint.logprobs_mode = "processed_logprobs"
        with pytest.raises(SamplingError, match="needs raw_logprobs") as caught:
            require_rollouts(by_vllm(**server), start, 1)
        assert "--logprobs-mode raw_logprobs" in str(caught.value.next_step)
        require_rollouts(by_vllm(min_p=0, **server), start, 1)
        require_rollouts(by_vllm(**server, importance_correction="none"), start, 1)
        endpoint.logprobs_mode = "raw_logprobs"
        require_rollouts(by_vllm(**server), start, 1)
        require_rollouts(by_vllm(min_p=0, **server), start, 1)  # the same at temperature 1
        with pytest.raises(SamplingError, match="needs processed_logprobs"):
            require_rollouts(by_vllm(min_p=0, temperature=0.8, **server), start, 1)


def test_a_server_that_nobody_typed_and_one_with_a_password_are_refused(start, monkeypatch):
    """A stored configuration doesn't say where weights are handed over."""
    stored = RolloutSection.model_validate(
        {"backend": "vllm", "vllm": {"mode": "server"}}, context={SERVER_URL}
    )
    with pytest.raises(ConfigurationError, match="needs the server's address"):
        require_rollouts(stored, start, 1)
    monkeypatch.setenv(VARIABLE, '{"http://ann@h:1": "s3cret"}')
    guarded = by_vllm(mode="server", server_url="http://ann@h:1")
    with pytest.raises(ConfigurationError, match="was given with a password"):
        require_rollouts(guarded, start, 1)
