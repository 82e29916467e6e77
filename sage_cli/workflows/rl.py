"""`sage rl`: a base, an anchor and verifiable rewards become a trained policy, once."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from sage_cli.config.recipe import RlRecipe, SftRecipe
from sage_cli.config.remarks import remarks
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import origins
from sage_cli.evaluation.development import development
from sage_cli.evaluation.drawing import Drawing
from sage_cli.evaluation.final import FinalMeasurement
from sage_cli.evaluation.reference import problems_held, reference_samples
from sage_cli.evaluation.retries import train_by_retries
from sage_cli.evaluation.rewarded import train_by_rewards
from sage_cli.evaluation.rollouts import require_rollouts
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.policies.compatibility import (
    note_weights,
    refuse_adapter_in_full_tuning,
    refuse_unfit_start,
    require_childless,
    require_own_weights,
    require_same_parent,
)
from sage_cli.models.policies.planned import planned_base
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import reference_policy
from sage_cli.problems.hints import require_hints
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.store.mirrors.follower import require_mirrors
from sage_cli.store.runs.replacement import current, settled, stage_replacement
from sage_cli.store.runs.run import Run, Runs
from sage_cli.training.launch import accelerate_configuration, train_together
from sage_cli.training.lifeline import ended_with, follow, is_followed
from sage_cli.training.optimizers import require_optimizer
from sage_cli.training.plugins import require_plugins
from sage_cli.training.processes import (
    is_launched,
    join_processes,
    processes_here,
    require_all_processes,
    require_alone,
    require_fit,
)
from sage_cli.workflows.rl_plan import planned_parent, planned_run, processes
from sage_cli.workflows.sft import base_policy

_OF_THE_BASE = ("--preset", "-p", "--config", "--set", "--runs")
SHOWN = {"reward": "reward", "kl/reference": "kl", "guide/q_mean": "q", "entropy": "entropy"}
SHOWN |= {"pairs/margin": "margin", "eval/pass@1": "dev pass@1"}


def rl(
    config: SageConfig,
    progress: Progress,
    *,
    init: str | None = None,
    fresh: bool = False,
    replace_parent: bool = False,
    measure: bool = False,
) -> Run:
    """Train by RL from the base (or from `init`), or go on with it, or find it finished.

    `fresh` trains it anew, beside the one that is there until it is finished; one that others grew
    from only with `replace_parent`. `measure` then measures it as `evaluation` says.
    """
    require_mirrors(config.tracking)
    require_all_processes()
    recipe = RlRecipe.of(config)
    ending: AbstractContextManager[None] = nullcontext()
    if is_launched():
        ending = ended_with(follow())
        require_fit(recipe.rl, recipe.model.tuning)
        require_alone(recipe.rl)
        _require_base(config, init)
        if not join_processes().is_main_process:
            return _train_beside(config, init)
    elif recipe.rl.accelerate is not None:
        accelerate_configuration(recipe.rl.accelerate)
    measurement = FinalMeasurement.of(config) if measure else None
    with progress.doing("reading what the run is made from"):
        parent = planned_parent(config, init)
        run = planned_run(config, parent)
    if not fresh:
        run = current(run)
    elif not replace_parent:
        require_childless(run, Runs(config.run.root))
    if run.finished and not fresh:
        return _found(config, run, measurement, progress)
    require_plugins(recipe)
    _refuse_unfit_machine(recipe)
    problems = _problems(config, recipe, progress)
    base = parent if init else base_policy(config, progress)
    _refuse_unfit(recipe, base, init)
    require_rollouts(recipe.rollout, base, processes(recipe))
    if fresh:  # from here on nothing is known to be against it
        run = stage_replacement(run)
    _refuse_foreign(run, base)
    for remark in remarks(config):
        progress.say(remark)
    progress.say(f"[bold]{run.id}[/]: loading libraries")
    if recipe.anchor.kl == "forward":
        reference = reference_samples(recipe, base, config.run.root)
        with Drawing(reference, config.sampling, progress) as drawing:
            held = problems_held(problems, recipe.rl)
            drawing.draw(recipe.rl.seed, held, recipe.anchor.reference_samples)
    if not is_launched() and _trains_apart(recipe, measured=measurement is not None):
        start = init or (str(base.run.folder) if base.run else None)
        train_together(config, run, start, progress, SHOWN)
        run.note(sweep=config.run.sweep)  # the launched command knows of no sweep
        if measurement is not None:
            measurement.take(run, progress)
    else:
        _record(config, recipe, base, problems, run, progress, measurement, ending)
    return run if is_followed() else settled(run)


def _found(
    config: SageConfig, run: Run, measurement: FinalMeasurement | None, progress: Progress
) -> Run:
    """A run that was finished before, measured if that is asked for."""
    progress.say(f"[bold]{run.id}[/] is trained already")
    if config.run.sweep is None:
        run.ask()
    if is_launched():
        join_processes().wait_for_everyone()
    if measurement is not None:
        measurement.take(run, progress)
    return run


def _problems(config: SageConfig, recipe: RlRecipe, progress: Progress) -> list[Problem]:
    """The problems to train on; those that it can't train with are named before any training."""
    with progress.doing(f"reading {recipe.data.rl.name}"):
        problems = load_training_problems(recipe.data)
        development(config)  # refuses problems to look at that would be trained on
        if isinstance(recipe.rl, GuidedDpo):
            require_hints(problems, recipe.data.rl, recipe.rl)
    return problems


def _require_base(config: SageConfig, init: str | None) -> None:
    """Under a launcher nothing but RL is trained: the other processes would wait in vain."""
    if init is not None or not config.sft.enabled:
        return
    base = planned_base(SftRecipe.of(config), Runs(config.run.root))
    if not base.exists:
        raise ConfigurationError(
            f"the base {base.label} isn't trained yet, and a command that a launcher started can't "
            "train it: that takes one process",
            f"train it first by `{base_command(sys.argv[1:])}`, then type this command again",
        )


def base_command(words: Sequence[str]) -> str:
    """The command that trains the base of the `sage rl` that was typed in these words.

    Of its options those that decide the base: presets, a stored configuration, settings, folder.
    """
    kept, rest = ["sage", "sft"], iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in _OF_THE_BASE:
            kept += [word] if equals else [word, next(rest, "")]
    return shlex.join(kept)


def _refuse_unfit(recipe: RlRecipe, base: Policy, init: str | None) -> None:
    """Refuse before anything is written what can't be trained from `base` under this recipe."""
    refuse_adapter_in_full_tuning(base, recipe.model.tuning)
    if recipe.anchor.kl != "none":
        reference_policy(base, recipe)
    require_own_weights(base)
    if init:
        allowed = recipe.rl.allow_template_mismatch
        refuse_unfit_start(base, recipe.model, recipe.prompt, other_template=allowed)


def _refuse_unfit_machine(recipe: RlRecipe) -> None:
    """Refuse before anything is trained what can't be computed or drawn here."""
    from sage_cli.training.hardware import require_hardware
    from sage_cli.training.rollout_engine import settled_engine

    require_hardware(recipe.model, processes_here(recipe.rl.processes))
    require_optimizer(recipe.rl.optimizer, "rl.optimizer")
    settled_engine(recipe.rollout, processes(recipe))


def _trains_apart(recipe: RlRecipe, *, measured: bool) -> bool:
    """Whether this command leaves the training to processes of their own.

    To several where several are asked for, and to one where its rollout engine would hold memory of
    the GPU that the engine of the measurement needs: only the end of a process gives it back.
    """
    from sage_cli.training.rollout_engine import is_colocated

    return recipe.rl.processes > 1 or (measured and is_colocated(recipe.rollout))


def _refuse_foreign(run: Run, base: Policy) -> None:
    """Refuse to go on with a run that began from other weights, or has another's checkpoints."""
    from sage_cli.training.checkpoints import refuse_foreign

    require_same_parent(run, base)
    refuse_foreign(run.checkpoints)


def _record(
    config: SageConfig,
    recipe: RlRecipe,
    base: Policy,
    problems: Sequence[Problem],
    run: Run,
    progress: Progress,
    measurement: FinalMeasurement | None,
    ending: AbstractContextManager[None],
) -> None:
    """Train in this process (and those launched with it), holding and describing the run."""
    from sage_cli.training.hardware import release_memory
    from sage_cli.training.watch import watched

    record = run.recording(
        config.model_dump(mode="json"),
        kind="rl",
        parent=base.run.id if base.run else base.path,
        parent_weights=base.fingerprint,
        seed=recipe.rl.seed,
        template=PromptTemplate.from_section(recipe.prompt, base.tokenizer_facts).hash,
        data=origins(problems) or recipe.data.rl.name,
        sweep=config.run.sweep,
    )
    with watched(run, config.tracking, "rl", progress, SHOWN) as watch:
        with record as run, ending:
            join_processes().wait_for_everyone()
            if isinstance(recipe.rl, GuidedDpo):
                train_by_retries(config, base, problems, run, watch, progress)
            else:
                train_by_rewards(config, base, problems, run, watch)
            note_weights(run)
        if measurement is not None:
            release_memory()
            measurement.take(run, progress, watch.mirrors)


def _train_beside(config: SageConfig, init: str | None) -> Run:
    """Train as one of several processes that a launcher started, all but the first of them.

    The first prepares base and run, holds the run's folder and writes; these wait, then train.
    """
    join_processes().wait_for_everyone()
    base = planned_parent(config, init)
    run = current(planned_run(config, base))
    if not run.finished:
        train_by_rewards(config, base, load_training_problems(config.data), run)
    return run
