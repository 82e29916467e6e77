"""Rollouts through vLLM: refused where they can't be drawn, as long as needed, seeded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl.generation import vllm_generation

from sage_cli.config.rollout import RolloutSection
from sage_cli.errors import ConfigurationError
from sage_cli.training import rollout_engine
from sage_cli.training.rollout_engine import require_heads, settled_engine
from sage_cli.training.vllm_rollouts import context_length, engine_seed, seeded_engine


def rollout(backend: str = "vllm", **vllm: Any) -> RolloutSection:
    return RolloutSection.model_validate({"backend": backend, "max_tokens": 100, "vllm": vllm})


@pytest.fixture
def gpu_with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(rollout_engine, "find_spec", lambda _: object())


def test_vllm_is_refused_without_a_gpu_and_auto_does_without(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="'vllm' needs a GPU"):
        settled_engine(rollout(), 1)
    assert settled_engine(rollout("auto"), 1).backend == "sampler"
    assert settled_engine(rollout("transformers"), 1) == rollout("transformers")


@pytest.mark.parametrize("launcher", ["FSDP", "DEEPSPEED"])
def test_the_sampler_needs_all_weights_in_each_process(
    monkeypatch: pytest.MonkeyPatch, launcher: str
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(f"ACCELERATE_USE_{launcher}", "true")
    assert settled_engine(rollout("auto"), 2).backend == "transformers"
    with pytest.raises(ConfigurationError, match="'sampler' needs all weights") as caught:
        settled_engine(rollout("sampler"), 2)
    assert "rollout.backend=transformers" in str(caught.value.next_step)


def test_vllm_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(rollout_engine, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="isn't installed"):
        settled_engine(rollout(), 1)
    assert settled_engine(rollout("auto"), 1).backend == "transformers"


@pytest.mark.usefixtures("gpu_with_vllm")
def test_auto_is_vllm_where_there_are_both():
    assert settled_engine(rollout("auto"), 1) == rollout()


@pytest.mark.usefixtures("gpu_with_vllm")
def test_an_engine_needs_as_many_processes_as_it_has_parts():
    with pytest.raises(ConfigurationError, match="4 doesn't divide the training's 6") as caught:
        settled_engine(rollout(tensor_parallel=4), 6)
    assert "--processes 8" in str(caught.value.next_step)  # 6 / 4 = 1.5: two engines of 4
    settled_engine(rollout(tensor_parallel=4), 8)
    server = {"mode": "server", "server_url": "http://there:1"}
    settled_engine(rollout(tensor_parallel=4, **server), 6)  # the server has its own


def test_heads_are_dealt_out_evenly():
    """Qwen2.5-Math-7B has 28: in 4 parts 7 each, in 8 parts 3.5."""
    require_heads(rollout(tensor_parallel=4), 28)
    require_heads(rollout("transformers", tensor_parallel=8), 28)
    require_heads(rollout(tensor_parallel=8), None)
    with pytest.raises(ConfigurationError, match="8 doesn't divide the model's 28") as caught:
        require_heads(rollout(tensor_parallel=8), 28)
    assert caught.value.next_step == ("use one of 1, 2, 4, 7: --set rollout.vllm.tensor_parallel=7")


def test_the_context_holds_the_longest_prompt_and_a_completion():
    assert context_length(rollout(), [3, 20, 7], 4096) == 120
    assert context_length(rollout(), [3, 20, 7], None) == 120
    assert context_length(rollout(max_model_len=150), [20], 4096) == 150
    assert context_length(rollout(max_model_len=5000), [20], 4096) == 4096


def test_a_context_that_is_too_short_is_refused():
    with pytest.raises(ConfigurationError, match="max_model_len of 110") as caught:
        context_length(rollout(max_model_len=110), [20, 5], 4096)
    assert caught.value.next_step == "use --set rollout.max_tokens=90"  # 110 - 20
    with pytest.raises(ConfigurationError, match="the model's context of 64"):
        context_length(rollout(), [70], 64)


def test_the_engine_is_seeded_by_seed_rank_and_step(monkeypatch: pytest.MonkeyPatch):
    built: list[dict[str, Any]] = []
    monkeypatch.setattr(vllm_generation, "LLM", lambda **k: built.append(k), raising=False)
    plain = vllm_generation.LLM
    for seed, rank, step in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 50)):
        with seeded_engine(seed, step):
            vllm_generation.LLM(model="m", seed=rank)
    assert vllm_generation.LLM is plain
    assert [engine["model"] for engine in built] == ["m"] * 4
    assert len({engine["seed"] for engine in built}) == 4
    assert built[0]["seed"] == engine_seed(1, 0, 0) < 2**31


def test_without_vllm_seeding_is_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(vllm_generation, "LLM", raising=False)
    with seeded_engine(1, 0):
        assert not hasattr(vllm_generation, "LLM")
