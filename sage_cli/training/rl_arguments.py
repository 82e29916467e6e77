"""From sections to TRL's words: pure, and explicit about every default that matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl import GRPOConfig

from sage_cli.config.specs import RlSpec
from sage_cli.methods.method import Method, OnlineMethod, batch_of
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.settings.sections.rollout import RolloutSection, VllmRolloutSection
from sage_cli.training.launch.hardware import common_arguments
from sage_cli.training.trainer.optimizers import scheduler_name


def grpo_arguments(recipe: RlSpec, output: Path, *, processes: int = 1) -> GRPOConfig:
    """TRL's arguments for one generation batch per `rl.steps_per_batch` optimiser steps.

    vLLM samples where `rollout.backend` says so: `auto` has been decided before. Raises
    ConfigurationError when a step's completions can't be divided among processes and
    micro-batches.
    """
    rl, anchor, model = recipe.rl, recipe.anchor, recipe.model
    assert isinstance(rl, OnlineMethod)
    batch = batch_of(rl, processes)
    return GRPOConfig(
        max_steps=rl.steps,
        per_device_train_batch_size=batch.micro_batch,
        gradient_accumulation_steps=batch.accumulation,
        # in micro-batches
        steps_per_generation=batch.accumulation * rl.steps_per_generation,
        num_generations=rl.rollouts_per_prompt,
        learning_rate=rl.learning_rate,
        lr_scheduler_type=scheduler_name(rl.scheduler),
        warmup_steps=rl.warmup_ratio,
        beta=anchor.beta if anchor.kl == "reverse" else 0.0,
        trust_remote_code=isinstance(model, PretrainedModel) and model.trust_remote_code,
        # True would multiply the k3 by the importance ratio: another method, in which a guide
        # that depends on the state alone drops out in expectation
        use_bias_correction_kl=anchor.estimator == "k3-corrected",
        mask_truncated_completions=False,
        shuffle_dataset=False,  # the rows come in the order of the whole training
        remove_unused_columns=False,
        cast_lm_head_to_fp32=rl.cast_lm_head_to_fp32,
        disable_dropout=True,  # rollouts, losses and reference are of one network
        save_steps=save_interval(rl),
        logging_nan_inf_filter=False,
        log_completions=False,
        ddp_find_unused_parameters=False,
        **rl.trl_arguments(),
        **_rollout(recipe.rollout, engine_stop(recipe)),
        **common_arguments(rl, output, model.compute_dtype),
    )


def save_interval(rl: Method) -> int:
    """`rl.save_every` rounded up to a generation boundary: the buffered batch isn't saved."""
    return -(-rl.save_every // rl.steps_per_batch) * rl.steps_per_batch


def engine_stop(recipe: RlSpec) -> str | None:
    """The text at which vLLM ends a rollout; None where only end-of-sequence does.

    TRL calls `generate` of Transformers without a tokenizer, which can't stop at a text then.
    """
    if recipe.rollout.backend != "vllm":
        return None
    return PromptTemplate(recipe.prompt, "").stop


def _rollout(rollout: RolloutSection, stop: str | None) -> dict[str, Any]:
    ending = {"stop": [stop], "include_stop_str_in_output": True}
    return {
        "generation_kwargs": ending if stop is not None else None,
        "temperature": rollout.temperature,
        "top_p": rollout.top_p,
        "top_k": rollout.top_k,
        "min_p": rollout.min_p or None,
        "max_completion_length": rollout.max_tokens,
        **(_vllm(rollout.vllm) if rollout.backend == "vllm" else {}),
    }


def _vllm(vllm: VllmRolloutSection) -> dict[str, Any]:
    """The engine; the length of its context is decided by the prompts (`vllm_rollouts`)."""
    corrected = vllm.importance_correction != "none"
    mode = {"vllm_importance_sampling_mode": vllm.importance_correction} if corrected else {}
    return {
        "use_vllm": True,
        "vllm_mode": vllm.mode,
        "vllm_tensor_parallel_size": vllm.tensor_parallel,
        "vllm_gpu_memory_utilization": vllm.memory_share,
        "vllm_enable_sleep_mode": vllm.sleep,
        "vllm_server_base_url": vllm.server_url,
        "vllm_server_timeout": vllm.server_timeout_s,
        "vllm_group_port": vllm.server_group_port,
        "vllm_importance_sampling_correction": corrected,
        "vllm_importance_sampling_clip_max": vllm.importance_cap,
        "vllm_importance_sampling_clip_min": vllm.importance_floor,
        **mode,
    }
