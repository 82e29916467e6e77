"""`sage rl`: a base, an anchor and verifiable rewards become a trained policy, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sage_cli.config.labels import rl_label
from sage_cli.config.remarks import remarks
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import origins
from sage_cli.models.load import ADAPTER_FILE
from sage_cli.policies.compatibility import refuse_unfit_start
from sage_cli.policies.policy import Policy, base_policy, named_policy
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.problems.training import load_training_problems
from sage_cli.progress import Progress, Silent
from sage_cli.store.identity import content_of, identity_of
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.run import Run, Runs
from sage_cli.training.checkpoints import refuse_foreign
from sage_cli.training.launch import (
    accelerate_configuration,
    is_launched,
    join_processes,
    world_size,
)
from sage_cli.workflows.rl_training import draw_reference_samples, train_policy
from sage_cli.workflows.rl_worker import train_in_processes
from sage_cli.workflows.watch import watched

COSMETIC = (
    "compat", "allow_template_mismatch", "save_every", "keep_checkpoints", "processes",
    "accelerate",
)  # fmt: skip
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
    require_mirrors(config.tracking)
    if is_launched():
        _require_base(config, init)
        if not join_processes().is_main_process:
            return accompany(config, init=init)
    elif config.rl.accelerate is not None:
        accelerate_configuration(config.rl.accelerate)
    runs = Runs(config.run.root)
    problems = load_training_problems(config)  # first: a broken file is named before any training
    base = named_policy(init, runs) if init else base_policy(config, progress)
    if config.model.tuning == "full" and (Path(base.path) / ADAPTER_FILE).is_file():
        raise ConfigurationError(
            f"{base.label} is a LoRA adapter, and model.tuning is 'full'",
            "use --set model.tuning=lora, or start from a model that was tuned in full",
        )
    if init:
        refuse_unfit_start(base, config)
    run = rl_run(config, base, problems)
    if fresh:
        run.clear()
    if run.finished:
        progress.say(f"[bold]{run.id}[/] is trained already")
        if sweep is None:
            run.ask()
        join_processes().wait_for_everyone()
        return run
    refuse_foreign(run.checkpoints)
    for remark in remarks(config):
        progress.say(remark)
    if config.anchor.kl == "forward":
        draw_reference_samples(config, base, problems, progress)
    template = PromptTemplate.from_section(config.prompt, base.tokenizer())
    record = run.recording(
        config.model_dump(mode="json"),
        kind="rl",
        parent=base.run.id if base.run else base.path,
        seed=config.rl.seed,
        template=template.hash,
        data=origins(problems) or config.data.rl.name,
        sweep=sweep,
    )
    with record, watched(config, run, "rl", progress, SHOWN) as on_step:
        if config.rl.processes > 1 and not is_launched():
            train_in_processes(config, base, run, on_step)
        else:
            join_processes().wait_for_everyone()
            train_policy(config, base, problems, run, on_step)
    return run


def accompany(config: SageConfig, *, init: str | None = None) -> Run:
    """Train as one of several processes that a launcher started, all but the first of them.

    The first prepares base and run, holds the run's folder and writes; these wait, then train.
    """
    join_processes().wait_for_everyone()
    runs, problems = Runs(config.run.root), load_training_problems(config)
    base = named_policy(init, runs) if init else base_policy(config, Silent())
    run = rl_run(config, base, problems)
    if not run.finished:
        train_policy(config, base, problems, run, lambda _: None)
    return run


def _require_base(config: SageConfig, init: str | None) -> None:
    """Under a launcher nothing but RL is trained: the other processes would wait in vain."""
    if init is None and config.sft.enabled:
        raise ConfigurationError(
            "a launcher started this command, and its base may have to be trained first",
            "run `sage sft` alone and name its run with --init, or use --processes instead",
        )


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
    processes = world_size() if is_launched() else config.rl.processes
    if processes > 1:  # each draws rollouts of its own
        determinants["processes"] = processes
    return Runs(config.run.root).at("rl", rl_label(config), identity_of("rl", determinants))
