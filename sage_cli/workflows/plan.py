"""What a command would do: stages, steps, completions, tokens. Loads no model, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.config.algorithms import ALGORITHMS
from sage_cli.config.labels import base_label, rl_label
from sage_cli.config.model import PretrainedModel
from sage_cli.config.presets import accelerate_file
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import batch_of
from sage_cli.store.run import Runs
from sage_cli.sweep.trials import trials


@dataclass(frozen=True)
class Stage:
    """One part of the work, and its facts by name."""

    title: str
    facts: dict[str, Any]


def plan(config: SageConfig, stages: Sequence[str]) -> list[Stage]:
    """The named stages (`sft`, `rl`, `measure`, `sweep`) of `config`, in order."""
    planners: dict[str, Callable[[SageConfig], Stage]] = {
        "sft": _sft,
        "rl": _rl,
        "measure": _measure,
        "sweep": _sweep,
    }
    return [planners[name](config) for name in stages]


def _sft(config: SageConfig) -> Stage:
    section, model = config.sft, config.model
    name = model.path if isinstance(model, PretrainedModel) else "from scratch"
    if not section.enabled:
        return Stage("1. base", {"model": f"{name}, taken as it is (sft.enabled is false)"})
    length = f"{section.steps} steps" if section.steps else f"{section.epochs} epochs"
    return Stage(
        "1. base: supervised warm-up",
        {
            "model": name,
            "tuning": _tuning(config) if isinstance(model, PretrainedModel) else "full",
            "demonstrations": config.data.sft.name,
            "length": f"{length} of {section.batch_size}",
            "learning rate": f"{section.learning_rate:g}, {section.scheduler}",
            "optimizer": section.optimizer,
            "seed": section.seed,
            "trained before": _existing(config, "sft"),
        },
    )


def _rl(config: SageConfig) -> Stage:
    rl, anchor = config.rl, config.anchor
    batch = batch_of(rl, rl.processes)
    limit = config.data.rl.limit
    return Stage(
        "2. RL",
        {
            "algorithm": f"{rl.algo} ({ALGORITHMS[rl.algo].source})",
            "compat": rl.compat,
            "loss": f"{rl.loss}, advantage {rl.advantage}, "
            f"clip {rl.epsilon_low:g}/{rl.epsilon_high:g}",
            "dynamic sampling": rl.dynamic_sampling,
            "overlong punishment": rl.overlong_punishment,
            "anchor": "none"
            if anchor.kl == "none"
            else f"{anchor.kl} KL, beta {anchor.beta:g}, estimator {anchor.estimator}, "
            f"reference {anchor.reference}",
            "guide": _guide(config),
            "tuning": _tuning(config),
            "problems": config.data.rl.name + (f", first {limit:,}" if limit else ""),
            "steps": rl.steps,
            "batch": f"{rl.prompts_per_step} prompts x {rl.rollouts_per_prompt} rollouts = "
            f"{batch.completions} completions = "
            + (f"{rl.processes} processes x " if rl.processes > 1 else "")
            + f"{batch.accumulation} x {batch.micro_batch}",
            "completions": f"{rl.steps * batch.completions:,}",
            "tokens at most": f"{rl.steps * batch.completions * config.rollout.max_tokens:,}",
            "rollout": f"temperature {config.rollout.temperature:g}, min_p {config.rollout.min_p:g}"
            f", {config.rollout.max_tokens} new tokens, {config.rollout.backend}",
            "learning rate": f"{rl.learning_rate:g}, {rl.scheduler}, "
            f"warm-up {rl.warmup_ratio:g} of the steps",
            "weight decay": f"{rl.weight_decay:g}",
            "optimizer": rl.optimizer,
            "processes": _processes(config),
            "seed": rl.seed,
            "trained before": _existing(config, "rl"),
        },
    )


def _processes(config: SageConfig) -> str:
    rl = config.rl
    by = f", launched by {accelerate_file(rl.accelerate)}" if rl.accelerate else ""
    return f"{rl.processes}{by}"


def _measure(config: SageConfig) -> Stage:
    evaluation, sampling = config.evaluation, config.sampling
    return Stage(
        "3. measure",
        {
            "benchmarks": evaluation.benchmark,
            "samples": f"{evaluation.samples} per problem x {evaluation.seeds} seeds",
            "k": evaluation.k,
            "sampling": f"temperature {sampling.temperature:g}, min_p {sampling.min_p:g}, "
            f"{sampling.max_tokens} new tokens, backend {sampling.backend}",
            "grading": config.grading.mode,
        },
    )


def _sweep(config: SageConfig) -> Stage:
    config, space = trials(config)
    cells, rl = len(list(space.cells())), config.rl
    completions = batch_of(rl, rl.processes).completions
    return Stage(
        "3. sweep",
        {
            **{
                short: ", ".join(f"{value:g}" for value in values)
                for short, values in space.values.items()
            },
            "cells": cells,
            "steps": f"{rl.steps} a cell, {cells * rl.steps:,} in all",
            "completions": f"{cells * rl.steps * completions:,}",
            "objectives": " and ".join(f"pass@{k}" for k in config.sweep.k),
            "development problems": config.evaluation.benchmark,
            "samples": f"{config.evaluation.samples} per problem",
        },
    )


def _guide(config: SageConfig) -> str:
    guide = config.guide
    settings = guide.model_dump(exclude={"name", "q_min", "q_max", "seed"})
    shown = ", ".join(f"{key} {value}" for key, value in settings.items())
    clamp = f"; q in [{guide.q_min:g}, {guide.q_max:g}]" if guide.name != "none" else ""
    return f"{guide.name} {shown}{clamp}".strip()


def _tuning(config: SageConfig) -> str:
    lora = config.model.lora
    if config.model.tuning == "full":
        return "full"
    return f"LoRA r = {lora.rank}, alpha = {lora.alpha}, {', '.join(lora.targets)}"


def _existing(config: SageConfig, kind: str) -> str:
    """Runs of that kind and label that are there; which of them fits is told by their identity."""
    label = base_label(config) if kind == "sft" else rl_label(config)
    found = [run.id for run in Runs(config.run.root).all() if run.id.startswith(f"{kind}-{label}-")]
    return ", ".join(found) or "no"
