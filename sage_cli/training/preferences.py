"""DPO on TRL's DPOTrainer: pairs arrive as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer

from sage_cli.config.specs import RlSpec
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.load import switch_off_own_dropout
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep
from sage_cli.training.checkpoints.checkpoints import prepare_resume, step_of
from sage_cli.training.checkpoints.interruption import Interruption
from sage_cli.training.checkpoints.sealed import SealedCheckpoints, carry_out, save_policy
from sage_cli.training.guided_retries import Pair
from sage_cli.training.launch.hardware import common_arguments
from sage_cli.training.launch.memory_errors import MemoryNeed
from sage_cli.training.rl_inputs import Validator
from sage_cli.training.rollouts.order import training_order
from sage_cli.training.trainer.optimizers import scheduler_name

LOGGED = {
    "loss": "loss",
    "rewards/margins": "pairs/margin",
    "rewards/chosen": "pairs/chosen",
    "rewards/rejected": "pairs/rejected",
    "rewards/accuracies": "pairs/accuracy",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
"""What the trainer logs of a step, and what it is called in the step's record."""


class PreferenceTrainer(SealedCheckpoints, DPOTrainer):  # type: ignore[misc]
    """DPOTrainer on rows of token ids, whose checkpoints are sealed."""

    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        """The rows as they are: TRL would encode prompt and completion together."""
        return dataset


def train_preferences(
    recipe: RlSpec,
    model: Any,
    reference: Any,
    tokenizer: Any,
    pairs: Sequence[Pair],
    run: Run,
    on_step: OnStep,
    first: Mapping[str, float],
    validator: Validator | None = None,
) -> None:
    """Train `model` in place and leave it in `run.model`; an interrupted run is resumed.

    `reference` is the frozen model; None where `model` has an adapter, which is then copied.
    `first` is added to the first step's record. Raises Interrupted after the step, with a
    checkpoint, in which a signal asked to stop.
    """
    checkpoint = prepare_resume(run, recipe.rl, model)
    done = step_of(checkpoint) if checkpoint else 0
    trainer = build_preference_trainer(recipe, model, reference, tokenizer, pairs, run)
    trainer.add_callback(_Recorder(run, on_step, first, validator))
    interruption, finished = Interruption(run, recipe.rl.save_minutes), done >= recipe.rl.steps
    carry_out(trainer, run, checkpoint, interruption, _memory_need(recipe), finished=finished)
    save_policy(trainer, run)


def build_preference_trainer(
    recipe: RlSpec, model: Any, reference: Any, tokenizer: Any, pairs: Sequence[Pair], run: Run
) -> PreferenceTrainer:
    """The trainer that `train_preferences` runs, ready to train."""
    rows = Dataset.from_list(tokenized(pairs, tokenizer, recipe))
    trainer = PreferenceTrainer(
        keep_checkpoints=recipe.rl.keep_checkpoints,
        model=model,
        ref_model=reference,
        args=dpo_arguments(recipe, run),
        train_dataset=rows.select(training_order(len(rows), recipe.rl)),
        processing_class=tokenizer,
    )
    for model in (trainer.model, trainer.ref_model):
        switch_off_own_dropout(model)
    return trainer


def tokenized(pairs: Sequence[Pair], tokenizer: Any, recipe: RlSpec) -> list[dict[str, list[int]]]:
    """Token ids of prompts without hints, and of both completions with end-of-sequence.

    Prompt and completion are encoded apart, as generation sees them.
    """
    template = PromptTemplate.from_section(recipe.prompt, tokenizer)

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    return [
        {
            "prompt_ids": ids(template.render(pair.question)),
            "chosen_ids": [*ids(pair.chosen), tokenizer.eos_token_id],
            "rejected_ids": [*ids(pair.rejected), tokenizer.eos_token_id],
        }
        for pair in pairs
    ]


def dpo_arguments(recipe: RlSpec, run: Run) -> DPOConfig:
    """`recipe` in TRL's words, with every default that matters set by name."""
    rl = guided(recipe)
    at_once = rl.pairs_at_once
    return DPOConfig(
        max_steps=rl.steps,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=rl.prompts_per_step // at_once,
        loss_type=["sigmoid"],
        beta=rl.preference_beta,
        label_smoothing=0.0,
        f_divergence_type="reverse_kl",
        precompute_ref_log_probs=False,
        sync_ref_model=False,
        disable_dropout=True,
        max_length=None,
        learning_rate=rl.rates[0],
        lr_scheduler_type=scheduler_name(rl.scheduler),
        warmup_steps=rl.warmup_ratio,
        train_sampling_strategy="sequential",  # the rows come in the order of the whole training
        save_steps=rl.save_every,
        logging_nan_inf_filter=False,
        **common_arguments(rl, run.checkpoints, recipe.model.compute_dtype),
    )


def guided(recipe: RlSpec) -> GuidedDpo:
    """Return the method's settings, where it is guided retries."""
    assert isinstance(recipe.rl, GuidedDpo)
    return recipe.rl


def _memory_need(recipe: RlSpec) -> MemoryNeed:
    rows = 2 * guided(recipe).pairs_at_once
    changes = {"rollout.max_tokens": max(1, recipe.rollout.max_tokens // 2)}
    return MemoryNeed(f"{rows} completions of pairs at once", changes, ("rl.micro_batch", rows))


class _Recorder(TrainerCallback):  # type: ignore[misc]
    def __init__(
        self, run: Run, on_step: OnStep, first: Mapping[str, float], validator: Validator | None
    ) -> None:
        self.run, self.on_step, self.first, self.validator = run, on_step, first, validator

    def on_log(
        self, _args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **_: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return
        step, last = state.global_step, state.global_step >= state.max_steps
        record: dict[str, Any] = {"step": step, "of": state.max_steps}
        record |= {name: float(logs[key]) for key, name in LOGGED.items() if key in logs}
        sampled = dict.fromkeys((key for key in self.first if key.startswith("sampled/")), 0)
        record |= self.first if step == 1 else sampled
        stops = control.should_training_stop
        if self.validator and (last or not (step % self.validator.every or stops)):
            record |= self.validator.validate(model)
        self.run.metrics.append(record)
        self.on_step(record)
