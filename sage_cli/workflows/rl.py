"""`sage rl`: a base, an anchor and verifiable rewards become a trained policy, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sage_cli.config.labels import rl_label
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.grading import Grade
from sage_cli.models.load import attach_lora
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.problems.training import load_training_problems
from sage_cli.store.run import Run, Runs, content_of, identity_of
from sage_cli.training.rl import train_rl
from sage_cli.workflows.base import Policy, base_policy, named_policy
from sage_cli.workflows.graders import grader_for, origins
from sage_cli.workflows.progress import Progress
from sage_cli.workflows.watch import watched

COSMETIC = ("save_every", "keep_checkpoints")
SHOWN = {"reward": "reward", "kl/reference": "kl", "guide/q_mean": "q", "entropy": "entropy"}


def rl(
    config: SageConfig,
    progress: Progress,
    *,
    init: str | None = None,
    fresh: bool = False,
    sweep: str | None = None,
) -> Run:
    """Train by RL from the base (or from `init`), or go on with it, or find it finished."""
    runs = Runs(config.run.root)
    problems = load_training_problems(config)  # first: a broken file is named before any training
    base = named_policy(init, runs) if init else base_policy(config, progress)
    run = rl_run(config, base, problems)
    if fresh:
        run.clear()
    if run.finished:
        progress.say(f"[bold]{run.id}[/] is trained already")
        return run
    tokenizer = base.tokenizer()
    template = PromptTemplate.from_section(config.prompt, tokenizer)
    prompts = [(template.render(problem.question), problem) for problem in problems]
    model, reference = _policy_and_reference(config, base)
    record = run.recording(
        config.model_dump(mode="json"),
        kind="rl",
        parent=base.run.id if base.run else base.path,
        seed=config.rl.seed,
        template=template.hash,
        data=origins(problems) or config.data.rl.name,
        sweep=sweep,
    )
    with (
        record,
        grader_for(config, config.data.rl.name) as grader,
        watched(config, run, "rl", progress, SHOWN) as on_step,
    ):

        def verdicts(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
            return grader.grade_many(list(zip(golds, completions, strict=True)))

        train_rl(config, model, reference, tokenizer, prompts, verdicts, run.folder, on_step)
    return run


def rl_run(config: SageConfig, base: Policy, problems: Sequence[Problem]) -> Run:
    """Where the policy of `config` trained from `base` is or will be."""
    settings = config.model_dump(mode="json")
    determinants = {
        "base": base.fingerprint,
        "tuning": [config.model.tuning, config.model.dtype, settings["model"]["lora"]],
        "prompt": settings["prompt"],
        "rl": {key: value for key, value in settings["rl"].items() if key not in COSMETIC},
        "rollout": settings["rollout"],
        "anchor": settings["anchor"] if config.anchor.kl != "none" else None,
        "guide": settings["guide"] if config.guide.name != "none" else None,
        "grading": [config.grading.mode, config.grading.tolerance],
        "data": content_of((problem.question, problem.gold) for problem in problems),
    }
    return Runs(config.run.root).at("rl", rl_label(config), identity_of("rl", determinants))


def _policy_and_reference(config: SageConfig, base: Policy) -> tuple[Any, Path | None]:
    """The trainable policy, and the folder of a reference that isn't inside the policy itself."""
    model = base.model(dtype=config.model.dtype, trainable=True)
    has_adapter = hasattr(model, "peft_config")
    if config.model.tuning == "full":
        if has_adapter:
            raise ConfigurationError(
                f"{base.label} is a LoRA adapter, and model.tuning is 'full'",
                "use --set model.tuning=lora, or start from a model that was tuned in full",
            )
        return model, Path(base.path) if config.anchor.kl != "none" else None
    return (model if has_adapter else attach_lora(model, config.model.lora)), None
