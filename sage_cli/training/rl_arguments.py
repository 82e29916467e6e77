"""From the configuration to TRL's words: pure, and explicit about every default that matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl import GRPOConfig

from sage_cli.config.schema import SageConfig
from sage_cli.config.training import RlSection, RolloutSection
from sage_cli.errors import ConfigurationError
from sage_cli.training.hardware import optimizer_name, precision


def grpo_arguments(config: SageConfig, output: Path, *, processes: int = 1) -> GRPOConfig:
    """TRL's arguments for one generation batch per `rl.iterations` optimiser steps.

    Raises ConfigurationError when a step's completions can't be divided among processes and
    micro-batches.
    """
    rl, anchor = config.rl, config.anchor
    micro_batch, accumulation = batch_arithmetic(rl, processes)
    return GRPOConfig(
        output_dir=str(output),
        max_steps=rl.steps,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation,
        num_generations=rl.rollouts_per_prompt,
        num_iterations=rl.iterations,
        learning_rate=rl.learning_rate,
        weight_decay=rl.weight_decay,
        lr_scheduler_type=rl.scheduler if rl.scheduler != "constant" else "constant_with_warmup",
        warmup_steps=rl.warmup_ratio,
        max_grad_norm=rl.max_grad_norm,
        optim=optimizer_name(rl.optimizer),
        gradient_checkpointing=rl.gradient_checkpointing,
        seed=rl.seed,
        data_seed=rl.seed,
        loss_type=rl.loss,
        scale_rewards="group" if rl.advantage == "group" else "none",
        epsilon=rl.epsilon_low,
        epsilon_high=rl.epsilon_high,
        beta=anchor.beta if anchor.kl == "reverse" else 0.0,
        # True would multiply the k3 by the importance ratio: another method, in which a guide
        # that depends on the state alone drops out in expectation
        use_bias_correction_kl=anchor.estimator == "k3-corrected",
        mask_truncated_completions=False,
        shuffle_dataset=False,  # the rows come in the order of the whole training
        remove_unused_columns=False,
        disable_dropout=False,
        save_steps=save_interval(rl),
        logging_steps=1,
        logging_nan_inf_filter=False,
        log_completions=False,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        ddp_find_unused_parameters=False,
        **_rollout(config.rollout),
        **precision(),
    )


def batch_arithmetic(rl: RlSection, processes: int) -> tuple[int, int]:
    """(completions of a process's micro-batch, gradient accumulation steps) of one optimiser step.

    prompts x rollouts = processes x micro-batch x accumulation.
    """
    completions = rl.prompts_per_step * rl.rollouts_per_prompt
    micro_batch = rl.micro_batch or max(1, completions // processes)
    if completions % (micro_batch * processes):
        raise ConfigurationError(
            f"a step's {completions} completions ({rl.prompts_per_step} prompts x "
            f"{rl.rollouts_per_prompt} rollouts) can't be divided into micro-batches of "
            f"{micro_batch} on {processes} process{'es' if processes > 1 else ''}",
            "choose rl.prompts_per_step, rl.rollouts_per_prompt and rl.micro_batch so that "
            "prompts x rollouts is a multiple of micro_batch x processes",
        )
    return micro_batch, completions // (micro_batch * processes)


def save_interval(rl: RlSection) -> int:
    """`rl.save_every` rounded up to a generation boundary: the buffered batch isn't saved."""
    return -(-rl.save_every // rl.iterations) * rl.iterations


def _rollout(rollout: RolloutSection) -> dict[str, Any]:
    """How completions are drawn; vLLM's importance correction is per token, truncated."""
    return {
        "temperature": rollout.temperature,
        "top_p": rollout.top_p,
        "top_k": rollout.top_k,
        "min_p": rollout.min_p or None,
        "max_completion_length": rollout.max_tokens,
        "use_vllm": rollout.backend != "transformers",
        "vllm_mode": "server" if rollout.backend == "vllm-server" else "colocate",
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": rollout.importance_cap,
    }
