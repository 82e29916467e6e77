"""Guided retries: supervised fine-tuning on right tries, then DPO on pairs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.training import SftSection
from sage_cli.store.runs.manifest import Origin
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep
from sage_cli.training.guided_retries import Lesson
from sage_cli.training.launch.hardware import release_memory
from sage_cli.training.preferences import guided, train_preferences
from sage_cli.training.rl_inputs import Validator
from sage_cli.training.sft import Example, train_sft

Load = Callable[[Path | None], Any]
"""The policy from a folder, ready to be trained; None is where the training starts."""
_UNBOUND = 1 << 30
"""Tokens that no completion of a policy has: SFT leaves none of its own out."""


def train_guided(
    recipe: RlSpec,
    lesson: Lesson,
    load: Load,
    tokenizer: Any,
    run: Run,
    on_step: OnStep,
    validator: Validator | None = None,
) -> None:
    """Train the policy and leave it in `run.model`; an interrupted run is resumed.

    What SFT leaves is kept in the run's folder, as a run of its own: it is DPO's reference.
    `on_step` hears DPO's steps. Raises Interrupted after the step, with a checkpoint, in which a
    signal asked to stop.
    """
    first = {name: float(count) for name, count in lesson.counts.items()}
    start = None
    if lesson.examples:
        warm_up = Run(run.folder / "warm-up")
        if not warm_up.finished:
            _warm_up(recipe, lesson, load(None), tokenizer, run, warm_up)
            shutil.rmtree(warm_up.checkpoints, ignore_errors=True)
            release_memory()
        start = warm_up.model
        first["sft/loss"] = warm_up.metrics.read()[-1]["loss"]
    reference = load(start) if recipe.model.tuning == "full" else None
    train_preferences(
        recipe, load(start), reference, tokenizer, lesson.pairs, run, on_step, first, validator
    )


def _warm_up(
    recipe: RlSpec, lesson: Lesson, model: Any, tokenizer: Any, run: Run, warm_up: Run
) -> None:
    template = PromptTemplate.from_section(recipe.prompt, tokenizer)
    examples = [Example(template.render(question), text) for question, text in lesson.examples]
    section = sft_section(guided(recipe))
    manifest = run.manifest
    origin = Origin(
        kind="sft",
        parent=manifest["parent"],
        seed=recipe.rl.seed,
        template=manifest["template"],
        data=manifest["data"],
    )
    with warm_up.recording(run.config, **origin) as warm_up:
        dtype = recipe.model.compute_dtype
        train_sft(section, model, tokenizer, examples, warm_up, lambda _: None, dtype)


def sft_section(rl: GuidedDpo) -> SftSection:
    """Return the SFT settings for right tries: in their order, `rl.prompts_per_step` at a time."""
    return SftSection(
        epochs=1,
        shuffle=False,
        batch_size=rl.prompts_per_step,
        micro_batch=rl.pairs_at_once,
        max_length=_UNBOUND,
        learning_rate=rl.rates[1],
        weight_decay=rl.weight_decay,
        scheduler=rl.scheduler,
        warmup_steps=None,
        warmup_ratio=rl.warmup_ratio,
        max_grad_norm=rl.max_grad_norm,
        optimizer=rl.optimizer,
        gradient_checkpointing=rl.gradient_checkpointing,
        save_every=rl.save_every,
        save_minutes=rl.save_minutes,
        seed=rl.seed,
    )
