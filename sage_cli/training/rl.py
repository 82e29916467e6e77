"""Reinforcement learning from verifiable rewards: from prompts and a policy to a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PrinterCallback
from trl.rewards import get_soft_overlong_punishment

from sage_cli.config.schema import SageConfig
from sage_cli.config.training import RlSection
from sage_cli.guides import build_guide
from sage_cli.problems.problem import Problem
from sage_cli.store.completion import Completion
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import newest_sealed, step_of
from sage_cli.training.dynamic_sampling import DynamicSampling
from sage_cli.training.forward_kl import ReferenceCompletions
from sage_cli.training.hardware import without_cpu_number
from sage_cli.training.launch import join_processes, world_size
from sage_cli.training.resource_errors import memory_explained
from sage_cli.training.rl_arguments import batch_arithmetic, grpo_arguments
from sage_cli.training.rl_trainer import RlTrainer
from sage_cli.training.safeguards import Safeguards
from sage_cli.training.verdicts import Grader, VerdictReward
from sage_cli.training.vllm_rollouts import require_rollouts, seeded_engine

OnStep = Callable[[Mapping[str, Any]], None]


def train_rl(
    config: SageConfig,
    model: Any,
    reference: Path | None,
    tokenizer: Any,
    prompts: Sequence[tuple[str, Problem]],
    grader: Grader,
    run_folder: Path,
    on_step: OnStep,
    reference_completions: Mapping[str, Sequence[Completion]] | None = None,
) -> None:
    """Train `model` in place and leave it in `run_folder`/model; takes up an interrupted run.

    `reference` is the folder of the frozen reference; None where there is no anchor, or where the
    policy is a LoRA adapter and finds it in itself. `prompts` are prompt texts with their
    problems. `on_step` hears each optimiser step's record, after it is in metrics.jsonl.
    `reference_completions`, by problem id, are what `anchor.kl: forward` is computed on.
    """
    require_rollouts(config.rollout)
    metrics = Run(run_folder).metrics
    with join_processes().main_process_first():
        checkpoint = take_up(run_folder, model)
    done = step_of(checkpoint) if checkpoint else 0
    with seeded_engine(config.rl.seed, done):
        trainer = build_trainer(
            config,
            model,
            reference,
            tokenizer,
            prompts,
            grader,
            run_folder,
            metrics,
            on_step,
            reference_completions,
        )
    if done >= config.rl.steps:
        trainer._load_from_checkpoint(str(checkpoint))
    else:
        micro_batch, _ = batch_arithmetic(config.rl, world_size())
        with memory_explained(micro_batch, config.rollout.max_tokens):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(run_folder / "model"))
    if trainer.accelerator.is_main_process:
        (run_folder / "model" / "training_args.bin").unlink(missing_ok=True)


def take_up(run_folder: Path, model: Any = None) -> Path | None:
    """The checkpoint of `model` to go on from; records of later steps are forgotten."""
    checkpoint = newest_sealed(run_folder / "checkpoints", model)
    run = Run(run_folder)
    for file in (run.metrics, run.rollouts):
        file.rewind(step_of(checkpoint) if checkpoint else 0)
    return checkpoint


def build_trainer(
    config: SageConfig,
    model: Any,
    reference: Path | None,
    tokenizer: Any,
    prompts: Sequence[tuple[str, Problem]],
    grader: Grader,
    run_folder: Path,
    metrics: MetricsFile,
    on_step: OnStep,
    reference_completions: Mapping[str, Sequence[Completion]] | None = None,
) -> RlTrainer:
    """The trainer that `train_rl` runs, ready to train."""
    arguments = without_cpu_number(
        grpo_arguments(config, run_folder / "checkpoints", processes=world_size())
    )
    if reference is not None:
        # TRL loads the reference from where the policy's configuration says it came from
        model.config._name_or_path = str(reference)

    safeguards = Safeguards(stop=config.rl.stop_when_stuck)
    for earlier in metrics.read():
        safeguards.remember(earlier)

    tracking, rollouts = config.tracking, Run(run_folder).rollouts

    def record(step: Mapping[str, Any]) -> None:
        if trainer.accelerator.is_main_process:
            if (step["step"] - 1) % tracking.rollouts_every == 0:
                for row in trainer.rollouts[: tracking.rollouts]:
                    rollouts.append({"step": step["step"], **row})
            metrics.append(step)  # last: who finds the step here finds its rollouts there
            on_step(step)
        safeguards.check(step)

    forward = None
    if config.anchor.kl == "forward":
        problems = [problem for _, problem in prompts]
        forward = ReferenceCompletions.encode(problems, reference_completions or {}, tokenizer)
    reward = VerdictReward(grader)
    population = prompt_rows(prompts)
    trainer = RlTrainer(
        rl=config.rl,
        anchor=config.anchor,
        reward=reward,
        guide=build_guide(config),
        estimator=config.anchor.estimator,
        dynamic=dynamic_sampling(config.rl, population),
        reference_completions=forward,
        on_record=record,
        model=model,
        reward_funcs=[reward, *punishments(config)],
        args=arguments,
        train_dataset=population.select(training_order(len(population), config.rl)),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def prompt_rows(prompts: Sequence[tuple[str, Problem]]) -> Dataset:
    """Rows for TRL: prompt text, gold answer, and the prompt's number."""
    return Dataset.from_dict(
        {
            "prompt": [text for text, _ in prompts],
            "gold": [problem.gold for _, problem in prompts],
            "row": list(range(len(prompts))),
        }
    )


def training_order(population: int, rl: RlSection) -> list[int]:
    """Which prompt comes when in the whole training: permutations, one after the other.

    The trainer sees one long epoch, because a sampler that shuffles anew each epoch forgets on
    resume which epoch it was in.
    """
    count = -(-rl.steps // rl.iterations) * rl.prompts_per_step
    epochs = [
        np.random.default_rng((rl.seed, epoch)).permutation(population)
        for epoch in range(-(-count // population))
    ]
    order: list[int] = np.concatenate(epochs)[:count].tolist()
    return order


def dynamic_sampling(rl: RlSection, population: Dataset) -> DynamicSampling | None:
    """The replacement of groups without variance, where the algorithm has it."""
    if not rl.dynamic_sampling:
        return None
    return DynamicSampling(population, rl.max_extra_generations, rl.seed)


def punishments(config: SageConfig) -> list[Any]:
    """DAPO's soft overlong punishment, from 0 down to -1 over the last stretch of the length."""
    if not config.rl.overlong_punishment:
        return []
    limit = config.rollout.max_tokens
    buffer = max(1, round(config.rl.overlong_buffer * limit))
    return [get_soft_overlong_punishment(max_completion_len=limit, soft_punish_cache=buffer)]
