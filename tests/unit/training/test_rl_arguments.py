"""The mapping to TRL's words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOConfig

from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import RlSpec
from sage_cli.methods.grpo import Grpo
from sage_cli.training.rl_arguments import engine_stop, grpo_arguments, save_interval


def arguments(config: SageConfig) -> Any:
    return grpo_arguments(RlSpec.of(config), Path("out"))


def test_every_default_that_differs_from_the_paper_is_set(configure: Any):
    config = configure(
        rl={"loss": "bnpo", "micro_batch": 4, "iterations": 2, "save_every": 5, "seed": 9},
        rollout={"temperature": 0.9, "top_p": 0.8, "top_k": 5, "min_p": 0.1, "max_tokens": 33},
        anchor={"beta": 0.07},
    )
    found = arguments(config)
    expected = {
        "max_steps": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 4,
        "steps_per_generation": 4, "generation_batch_size": 16, "num_generations": 4,
        "num_iterations": 2, "loss_type": "bnpo", "beta": 0.07, "scale_rewards": "group",
        "use_bias_correction_kl": False, "epsilon": 0.2, "epsilon_high": 0.2,
        "temperature": 0.9, "top_p": 0.8, "top_k": 5, "min_p": 0.1, "max_completion_length": 33,
        "save_steps": 6, "seed": 9, "data_seed": 9, "warmup_steps": 0.1, "use_vllm": False,
        "gradient_checkpointing": False,
        "mask_truncated_completions": False, "logging_nan_inf_filter": False,
    }  # fmt: skip
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("anchor", "beta", "corrected"),
    [
        ({"kl": "reverse", "beta": 0.1}, 0.1, False),
        ({"kl": "reverse", "beta": 0.1, "estimator": "k3-corrected"}, 0.1, True),
        ({"kl": "reverse", "beta": 0.1, "estimator": "reward"}, 0.1, False),
        ({"kl": "none", "beta": 0.1}, 0.0, False),
        ({"kl": "forward", "beta": 0.1}, 0.0, False),
    ],
)
def test_anchor(configure: Any, anchor: dict[str, Any], beta: float, corrected: bool):
    found = arguments(configure(anchor=anchor))
    assert (found.beta, found.use_bias_correction_kl) == (beta, corrected)


@pytest.mark.parametrize(
    ("advantage", "scale"), [("group", "group"), ("none", "none"), ("beta", "none")]
)
def test_advantages(configure: Any, advantage: str, scale: str):
    found = arguments(configure(rl={"advantage": advantage}))
    assert found.scale_rewards == scale


def test_what_trl_offers_besides_is_off_unless_asked_for(configure: Any):
    plain = arguments(configure())
    theirs = GRPOConfig(output_dir="out", use_cpu=True, bf16=False)
    names = ("delta", "importance_sampling_level", "entropy_coef", "top_entropy_quantile")
    for name in names:
        assert getattr(plain, name) == getattr(theirs, name), name
    rl = {
        "delta": 4.0,
        "importance_sampling_level": "sequence",
        "entropy_coefficient": 0.01,
        "top_entropy_quantile": 0.2,
        "iterations": 2,
    }
    asked = arguments(configure(rl=rl))
    assert [getattr(asked, name) for name in names] == [4.0, "sequence", 0.01, 0.2]


def test_the_entropy_bonus_is_adapted_where_there_is_a_target(configure: Any):
    assert not arguments(configure()).use_adaptive_entropy
    found = arguments(configure(rl={"entropy_target": 0.3, "entropy_coefficient_step": 0.01}))
    assert (found.use_adaptive_entropy, found.entropy_target, found.entropy_coef) == (True, 0.3, 0)
    assert (found.entropy_coef_delta, found.entropy_coef_min, found.entropy_coef_max) == (
        0.01,
        0,
        1,
    )


def test_without_clipping_no_ratio_is_beyond_the_range(configure: Any):
    found = arguments(configure(rl={"clip": False}))
    assert (1 - found.epsilon, 1 + found.epsilon_high) == (0, math.inf)


def test_checkpoints_fall_on_generation_boundaries():
    assert save_interval(Grpo(save_every=50, iterations=4)) == 52
    assert save_interval(Grpo(save_every=52, iterations=4)) == 52


SERVER = {"mode": "server", "server_url": "http://elsewhere:8000"}


@pytest.mark.parametrize("vllm", [{}, SERVER])
def test_vllm_ends_a_rollout_at_the_closing_tag_and_keeps_it(configure: Any, vllm: dict[str, str]):
    found = arguments(configure(rollout={"backend": "vllm", "vllm": vllm}))
    assert found.use_vllm
    assert found.generation_kwargs == {"stop": ["</SOLUTION>"], "include_stop_str_in_output": True}
    boxed = configure(rollout={"backend": "vllm", "vllm": vllm}, prompt={"answer": "boxed"})
    assert arguments(boxed).generation_kwargs is None


def test_vllms_settings_are_handed_on(configure: Any):
    vllm = {"tensor_parallel": 2, "memory_share": 0.45, "sleep": True, "importance_cap": 3.5,
            "importance_floor": 0.5}  # fmt: skip
    colocated = arguments(configure(rollout={"backend": "vllm", "vllm": vllm}))
    served = arguments(configure(rollout={"backend": "vllm", "vllm": SERVER}))
    expected = {
        "vllm_mode": "colocate", "vllm_tensor_parallel_size": 2,
        "vllm_gpu_memory_utilization": 0.45, "vllm_enable_sleep_mode": True,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 3.5,
        "vllm_importance_sampling_clip_min": 0.5,
    }  # fmt: skip
    assert {name: getattr(colocated, name) for name in expected} == expected
    assert (served.vllm_mode, served.vllm_server_base_url) == ("server", SERVER["server_url"])
    assert served.vllm_importance_sampling_clip_max == 2.0


@pytest.mark.parametrize("correction", ["sequence_mask", "none"])
def test_the_importance_correction_is_the_one_that_is_named(configure: Any, correction: str):
    rollout = {"backend": "vllm", "vllm": {"importance_correction": correction}}
    found = arguments(configure(rollout=rollout))
    assert found.vllm_importance_sampling_correction is (correction != "none")
    if correction != "none":
        assert found.vllm_importance_sampling_mode == correction


def test_transformers_can_stop_at_no_text(configure: Any):
    config = configure()
    assert arguments(config).generation_kwargs is None
    assert engine_stop(RlSpec.of(config)) is None


def test_several_steps_share_a_generation(configure: Any):
    found = arguments(configure(rl={"steps_per_generation": 2, "micro_batch": 8}))
    # 16 completions a step in 2 micro-batches of 8; TRL counts micro-batches
    assert found.gradient_accumulation_steps == 2
    assert (found.steps_per_generation, found.generation_batch_size) == (4, 32)
    assert save_interval(Grpo(save_every=50, iterations=2, steps_per_generation=3)) == 54


def test_remote_code_is_loaded_with_consent_alone(configure: Any):
    assert arguments(configure()).trust_remote_code is False
    consent = configure(model={"kind": "pretrained", "trust_remote_code": True})
    assert arguments(consent).trust_remote_code is True
