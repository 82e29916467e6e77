"""What a step of RL knows of its completions: the batch that goes from sampling to the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from torch import Tensor

IMAGE_FIELDS = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)
"""What TRL keeps of a batch's images, and gives to each pass."""


class RolloutBatch(TypedDict, total=False):
    """A generation batch of this process, or some of its rows, in the form that TRL shuffles.

    B rows, one completion each; P tokens of the longest prompt, T of the longest completion; H
    likeliest tokens of a state. Log-probabilities and entropies are in nats, at the temperature of
    sampling, and without gradient. A comment says who writes the fields below it.
    """

    # TRL: what was sampled and graded
    prompt_ids: Tensor
    """(B, P), padded on the left."""
    prompt_mask: Tensor
    completion_ids: Tensor
    """(B, T), padded on the right."""
    completion_mask: Tensor
    tool_mask: Tensor
    """(B, T): 0 on tokens that attention sees and the loss doesn't read."""
    advantages: Tensor
    """(B,), or (B, T) where a method tells tokens apart."""
    num_items_in_batch: Tensor
    """(): the tokens that the loss reads, of the generation batches of all processes."""
    old_per_token_logps: Tensor
    """(B, T) of the policy that sampled; not there where the policy is that one still."""
    sampling_per_token_logps: Tensor
    """(B, T) as the engine says them, NaN where it says nothing."""
    importance_sampling_ratio: Tensor
    """(B, T) or (B, 1): the correction of the engine's probabilities."""

    # GuidedGRPOTrainer: the pass over the reference
    row_ids_B: Tensor
    """Each row's index in the generation batch of all processes, which seeds its noise."""
    prompt_names_B: Tensor
    """A number that rows of the same prompt share, on the host."""
    old_entropy_BT: Tensor
    """Of the policy that sampled, where a method reads it."""
    ref_per_token_logps: Tensor
    """(B, T) of the frozen reference, by the name that TRL's loss reads."""
    reference_entropy_BT: Tensor
    tilted_wrong_BT: Tensor
    """log of pi_ref^phi, normalised, for the guide's exponent of wrong completions."""
    tilted_right_BT: Tensor
    head_ids_BTH: Tensor
    """The reference's likeliest tokens in each state (`anchor.estimator=head`)."""
    head_reference_BTH: Tensor
    """Their log-probabilities under the reference."""

    # GuidedGRPOTrainer: grades, where it is known which rewards are correct
    right_B: Tensor
    rewards_B: Tensor
    group_right_B: Tensor
    """Share of correct completions among the N that the row's prompt had first."""

    # GuidedGRPOTrainer: fixed at the first pass of an iteration over these rows
    log_q_BT: Tensor
    log_ratio_BT: Tensor
    """log pi - log q - log pi_ref."""
    head_log_q_BTH: Tensor

    # SageTrainer
    prompt_row_B: Tensor
    """Each row's prompt, by its number in the data set."""
    truncated_B: Tensor
    """True where `rollout.max_tokens` ended the completion."""

    # DARS
    parts: list[tuple[float, RolloutBatch]]
    """A buffered micro-batch in parts of at most `rl.micro_batch` rows, with their weights."""


def has_rows(value: Any) -> bool:
    """Return True for what a batch has of each row, as its masks, and False for a count of all."""
    from torch import Tensor

    return isinstance(value, Tensor) and value.dim() > 0


def rows_of(batch: Mapping[str, Any], which: slice | Tensor) -> RolloutBatch:
    """Return some rows of a batch, by a slice or their indices; what has no rows stays."""
    rows = {
        name: value[which if isinstance(which, slice) or which.is_cpu else which.to(value.device)]
        if has_rows(value)
        else value
        for name, value in batch.items()
    }
    return cast("RolloutBatch", rows)


def learned_tokens(batch: RolloutBatch) -> Tensor:
    """Return 1 (B, T) on completions' tokens that the loss reads, as TRL's loss combines masks."""
    mask_BT = batch["completion_mask"]
    return mask_BT * batch["tool_mask"] if "tool_mask" in batch else mask_BT


def whole_texts(batch: RolloutBatch) -> tuple[Tensor, Tensor]:
    """Return ids and mask (B, P + T) of prompts with their completions."""
    import torch

    return (
        torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
        torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
    )


def images_of(batch: RolloutBatch) -> dict[str, Any]:
    """Return a batch's images by the names that TRL's passes take, None where there are none."""
    fields = cast("Mapping[str, Any]", batch)
    return {name: fields.get(name) for name in IMAGE_FIELDS}
