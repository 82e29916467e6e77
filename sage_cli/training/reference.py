"""The reference: which one it is, how it follows the policy, and completions of a frozen one.

TRL's `sync_ref_model` averages too, with a full reference alone: under LoRA it has none. Averaging
an adapter's A and B is not averaging their product: there the reference's update is approximate,
and exact where a reset copies both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback

from sage_cli.errors import TrainingError
from sage_cli.guides.divergences import forward_cross_entropy
from sage_cli.methods.rollout_batch import RolloutBatch, rows_of
from sage_cli.models.loading import merge_adapter
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.settings.anchor import OWN_REFERENCES, AnchorSection
from sage_cli.settings.model import PretrainedModel, ScratchModel, kernel_arguments
from sage_cli.store.completion import Completion, token_ids
from sage_cli.training.hardware import precision_arguments
from sage_cli.training.trl_host import prepare_deepspeed, prepare_fsdp

_FILE = "reference.safetensors"
"""A checkpoint's file of the reference as it is at that step."""
_CHECKED_ROWS = 4
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Nats a token by which the same weights may differ when other rows are computed beside them.

On a GPU bfloat16 was seen to differ by 3.6e-3 on a small model; its 8 bits are 2^16 times coarser
than float32's 24.
"""
Weights = dict[str, Tensor]


def load_teacher(teacher: Policy, model: PretrainedModel | ScratchModel) -> Any:
    """Return a teacher in evaluation mode, without gradients, with its adapter merged.

    Its weights have the type in which they are stored where products are coarse anyway, else
    float32. `model` is the policy's section, whose kernels it computes with.
    """
    dtype = "auto" if precision_arguments(model.compute_dtype)["bf16"] else "float32"
    loaded = teacher.model(dtype=dtype, kernels=kernel_arguments(model))
    whole = merge_adapter(loaded) if hasattr(loaded, "peft_config") else loaded
    return whole.requires_grad_(False).eval()


def prepare_frozen(trainer: Any, model: Any) -> Any:
    """Return a frozen model as TRL prepares its own: on the trainer's device, sharded or whole."""
    if trainer.is_deepspeed_enabled:
        return prepare_deepspeed(model, trainer.accelerator)
    if trainer.is_fsdp_enabled:
        return prepare_fsdp(model, trainer.accelerator)
    return trainer.accelerator.prepare_model(model, evaluation_mode=True)


def check_reference(trainer: Any, batch: RolloutBatch, reference: str) -> None:
    """Compare the reference's log-probabilities with separately computed ones, before any update.

    Under `initial` the reference is the policy itself as it starts, under `pre-sft` (LoRA) the
    model with its adapter off. A teacher is none of the policy's own states. Raises TrainingError
    when they differ.
    """
    if reference not in OWN_REFERENCES:
        return
    model = trainer.accelerator.unwrap_model(trainer.model)
    adapted = hasattr(model, "disable_adapter")
    if "ref_per_token_logps" not in batch or (reference == "pre-sft" and not adapted):
        return
    rows = rows_of(batch, slice(_CHECKED_ROWS))
    with model.disable_adapter() if reference == "pre-sft" else nullcontext():
        expected_BT, _ = trainer.policy_signals(rows)
    mask_BT = batch["completion_mask"][:_CHECKED_ROWS].bool()
    found_BT = batch["ref_per_token_logps"][:_CHECKED_ROWS]
    off = (found_BT - expected_BT)[mask_BT].abs().mean().item()
    tolerance = TOLERANCE[torch.bfloat16 if trainer.args.bf16 else model.dtype]  # of products
    if not off <= tolerance:
        whose = "the policy as it starts" if reference == "initial" else "the base model"
        raise TrainingError(
            f"anchor.reference is '{reference}', but at step 0 the reference's log-probabilities "
            f"differ from those of {whose} by {off:.3g} nats a token (tolerance {tolerance})",
            "check that the reference's folder is the model the policy was loaded from",
        )


class MovingReference(TrainerCallback):  # type: ignore[misc]
    """Moves a trainer's reference after optimiser steps, before checkpoints of them are saved.

    The reference is read when a batch of `steps_per_batch` steps is sampled, so a reset that is due
    within one waits for its end: moments are forgotten when the reference is another.
    """

    def __init__(self, trainer: Any, anchor: AnchorSection, steps_per_batch: int) -> None:
        self._trainer, self._anchor, self._batch = trainer, anchor, steps_per_batch
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise TrainingError(
                "anchor.ema and anchor.reset_every move a reference that each process has whole, "
                "and the launcher spreads it over all of them",
                "choose `rl.accelerate` ddp, or leave them out",
            )

    def on_step_end(self, _arguments: Any, state: Any, *_: Any, **__: Any) -> None:
        """Average or reset the reference, if this step is one for it."""
        step, anchor = state.global_step, self._anchor
        if anchor.ema is not None and step % anchor.ema_every == 0:
            average(self.weights, self._policy, anchor.ema)
        period, before = anchor.reset_every, step - self._batch
        # due if a multiple of the period lies within the batch that ends here
        if period and step % self._batch == 0 and step // period > before // period:
            average(self.weights, self._policy, 0.0)
            self._trainer.optimizer.state.clear()  # moments and their counts of steps

    @property
    def weights(self) -> Weights:
        """The reference's own: all of a model's, or those of the adapter "ref"."""
        if self._trainer.ref_model is not None:
            return _parameters(self._trainer.accelerator.unwrap_model(self._trainer.ref_model))
        return {
            name.replace(".ref.", ".default."): weight
            for name, weight in _parameters(self._model).items()
            if ".ref." in name
        }

    def save(self, checkpoint: Path) -> None:
        """Add the reference to a checkpoint."""
        # contiguous copies: safetensors refuses tensors that share memory, as tied weights do
        saved = {name: weight.detach().cpu().contiguous() for name, weight in self.weights.items()}
        save_file(saved, checkpoint / _FILE)

    @torch.no_grad()
    def load(self, checkpoint: Path) -> None:
        """Take the reference from a checkpoint. Raises TrainingError if it has none that fits."""
        file = checkpoint / _FILE
        saved = load_file(file) if file.is_file() else {}
        weights = self.weights
        if saved.keys() != weights.keys():
            raise TrainingError(
                f"{checkpoint} lacks the reference as it was then",
                f"remove {checkpoint}, so that training resumes from an earlier one",
            )
        for name, weight in weights.items():
            weight.copy_(saved[name])

    @property
    def _model(self) -> Any:
        return self._trainer.accelerator.unwrap_model(self._trainer.model)

    @property
    def _policy(self) -> Weights:
        return _parameters(self._model)


@torch.no_grad()
def average(reference: Weights, policy: Weights, ema: float) -> None:
    """P := ema P + (1 - ema) pi, weight by weight, in place (EMA-PG, arXiv 2602.04417).

    With 0 it is a reset (ProRL, arXiv 2505.24864), with 1 nothing changes. A weight that equals the
    policy's stays as it is, which the sum of two rounded products wouldn't grant.
    """
    for name, weight in reference.items():
        # lerp computes w + (1 - ema)(pi - w), which is exactly w where pi equals w
        weight.lerp_(policy[name].to(weight), 1 - ema)


def _parameters(model: Any) -> Weights:
    return dict(model.named_parameters())


class ReferenceCompletions:
    """Token ids of the reference's completions as sampled: prompt number -> completions."""

    def __init__(self, ids: Sequence[Sequence[Sequence[int]]]) -> None:
        self.ids = [[torch.tensor(tokens) for tokens in completions] for completions in ids]

    @classmethod
    def encode(
        cls,
        problems: Sequence[Problem],
        completions: Mapping[str, Sequence[Completion]],
        tokenizer: Any,
        stop: str | None,
        rows: Sequence[int],
    ) -> ReferenceCompletions:
        """Encode stored completions by problem id, of the prompts `rows` that the training takes.

        End-of-sequence is there where it was sampled, and not after a text that ended at `stop`.
        Raises TrainingError when one of those problems has none.
        """
        ids: list[list[Sequence[int]]] = [[] for _ in problems]
        for row in rows:
            problem = problems[row]
            sampled = completions.get(problem.id, ())
            if not sampled:
                raise TrainingError(
                    f"problem {problem.id} has no completion of the reference, which "
                    "is sampled before training",
                    "sample them for every problem of the training",
                )
            ids[row] = [token_ids(tokenizer, completion, stop) for completion in sampled]
        return cls(ids)

    def take(self, prompt_row_B: Tensor, turn_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids and mask (B, T) of one completion per prompt, going round by `turn_B`."""
        chosen = [
            self.ids[row][turn % len(self.ids[row])]
            for row, turn in zip(prompt_row_B.tolist(), turn_B.tolist(), strict=True)
        ]
        mask = [torch.ones_like(tokens) for tokens in chosen]
        return pad_sequence(chosen, batch_first=True), pad_sequence(mask, batch_first=True)


def forward_kl_loss(
    trainer: Any, model: Any, batch: RolloutBatch, completions: ReferenceCompletions
) -> Tensor:
    """-log pi on one reference completion for each row of the micro-batch, in nats a token.

    Row j of a prompt takes the prompt's completions in turn, from generation to generation, so
    that every completion is used and a resumed run uses the same.
    """
    generation = trainer.state.global_step // trainer.rl.steps_per_batch
    turn_B = batch["row_ids_B"] % trainer.num_generations + generation * trainer.num_generations
    ids_BT, mask_BT = completions.take(batch["prompt_row_B"], turn_B)
    ids_BT, mask_BT = ids_BT.to(batch["prompt_ids"]), mask_BT.to(batch["prompt_mask"])
    policy = trainer.run_pass(
        "policy",
        model,
        torch.cat([batch["prompt_ids"], ids_BT], dim=1),
        torch.cat([batch["prompt_mask"], mask_BT], dim=1),
        ids_BT.shape[1],
    )
    return forward_cross_entropy(policy.logps_BT, mask_BT)
