"""DARS (Yang et al. 2025): hard prompts get a second stage of rollouts, and groups unequal sizes.

The second stage is sampled and scored in portions of at most the first's size, and a step's
loss is computed in parts of at most a micro-batch: neither needs more memory at once
than training without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from sage_cli.methods.clipping import Loss
from sage_cli.methods.hooks import Hooks, Rollouts, Setup, Trainer
from sage_cli.methods.loop import OtherSections, Sampled
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.methods.rollout_batch import RolloutBatch, rows_of

if TYPE_CHECKING:
    from torch import Tensor

_MOST = {"et": 32, "hw": 64}
"""Rollouts of a prompt in both stages together, as the authors have it."""
_ON_THE_LEFT = ("prompt_ids", "prompt_mask")


class Dars(PolicyGradient):
    """DARS (Yang et al. 2025). Advantages are rewards minus the mean of both stages."""

    algo: Literal["dars"] = "dars"
    loss: Loss = "dr_grpo"
    allocation: Literal["et", "hw"] = "et"
    """Further rollouts for prompts with a success rate below one half: `et` adds them until their
    advantages weigh as much as those of a prompt at one half, `hw` adds more the harder the
    prompt is."""
    most_rollouts: int | None = Field(None, ge=2)
    """Largest number of rollouts of a prompt in both stages. null means the authors' values, 32 for
    `et` and 64 for `hw`."""

    source = (
        "Yang et al. 2025 (arXiv 2508.13755): hard prompts get a second stage of rollouts (ET, up "
        "to 32; rl.allocation=hw weighs the hardest more), rewards minus their pool's mean"
    )
    read_from = "code"
    kl_without_guide = "none"
    loss_in_parts = True

    @property
    def computed_by_trl(self) -> Literal["none"]:
        """The first stage's, which pools replace."""
        return "none"

    @property
    def most_of_prompt(self) -> int:
        """Return the largest number of rollouts of a prompt in both stages."""
        return max(self.rollouts_per_prompt, self.most_rollouts or _MOST[self.allocation])

    @property
    def sampled(self) -> Sampled:
        """Return how many completions both stages sample."""
        prompts, most = self.steps * self.prompts_per_step, self.most_of_prompt
        because = f"the second stage adds rollouts of hard prompts, up to {most} of each in all"
        return Sampled(prompts * self.rollouts_per_prompt, prompts * most, because)

    def hooks(self, setup: Setup) -> Hooks:
        """Return what samples the second stage."""
        return SecondStage(self, setup)

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts with settings that need groups of equal size."""
        refusals, group = super().refusals(beside), self.rollouts_per_prompt
        if group < 3:
            refusals.append(
                "rl.algo 'dars' finds hard prompts by their share of correct rollouts, and "
                f"rl.rollouts_per_prompt {group} gives shares of 0 and 1, or 1/2 between them (use "
                "more; 8 is usual)"
            )
        if self.most_rollouts is not None and self.most_rollouts <= group:
            refusals.append(
                f"rl.most_rollouts {self.most_rollouts} counts both stages, and the first alone "
                f"has rl.rollouts_per_prompt {group}"
            )
        if self.loss not in ("dr_grpo", "grpo"):
            refusals.append(
                "rl.algo 'dars' pools groups of unequal size, for which rl.loss 'dr_grpo' or "
                f"'grpo' are made, not '{self.loss}'"
            )
        if self.dynamic_sampling:
            refusals.append(
                "rl.algo 'dars' gives hard prompts more rollouts, and rl.dynamic_sampling replaces "
                "them"
            )
        if beside.rollout.may_use_vllm and beside.rollout.vllm.mode == "server":
            refusals.append(
                "rl.algo 'dars' samples unequal numbers of completions of a prompt, and a vLLM "
                "server is asked for equal ones (use rollout.vllm.mode=colocate or "
                "rollout.backend=transformers)"
            )
        if beside.anchor.kl == "forward":
            refusals.append(
                "rl.algo 'dars' has batches of unequal size, and forward KL takes the reference's "
                "completions row by row in turn (use --kl reverse or none)"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the second stage."""
        return {**super().describe(), "second stage": self.allocation}


def extra_rollouts(right: int, first: int, allocation: Literal["et", "hw"], most: int) -> int:
    """Return the second-stage rollouts of a prompt with `right` of `first` rollouts correct.

    With accuracy a = right / first (0.5 / first where none is correct), a group's advantages weigh
    W = 2 a (1 - a) each, and first / 2 in all at a = 1/2. `et` brings every hard prompt up to that
    weight, `hw` up to 2 (1 - a) times it; prompts with a >= 1/2 get none.
    """
    accuracy = (right or 0.5) / first
    if accuracy >= 0.5:
        return 0
    weight, peak = 2 * accuracy * (1 - accuracy), first / 2
    target = peak if allocation == "et" else 2 * (1 - accuracy) * peak
    return min(math.ceil((target - first * weight) / weight), most - first)


def pooled_advantages(
    reward_B: Tensor, right_B: Tensor, prompt_B: Tensor, real_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Return rewards minus the mean of their prompt's pool (B,), and whether a row teaches (B,).

    Pools may differ in size; rows that aren't `real_B` belong to none. A pool of one grade
    teaches nothing, nor do rows that aren't real.
    """
    import torch

    prompts = int(prompt_B.max()) + 1
    here_B = real_B.to(reward_B)

    def summed(values_B: Tensor) -> Tensor:
        return torch.zeros(prompts).to(reward_B).index_add(0, prompt_B, values_B * here_B)

    size_P = summed(torch.ones_like(reward_B)).clamp(min=1)
    share_P = summed(right_B.to(reward_B)) / size_P
    mixed_P = (share_P > 0) & (share_P < 1)
    centred_B = reward_B - (summed(reward_B) / size_P)[prompt_B]
    return centred_B, mixed_P[prompt_B] & real_B


class SecondStage(Hooks):
    """Samples it, pools both stages and leaves out pools of one grade.

    The record says how many rollouts the last batch took beyond the first stage, of how many
    prompts, and how many of those without a correct answer have found one.
    """

    def __init__(self, method: Dars, setup: Setup) -> None:
        super().__init__(method, setup)
        self.allocation = method.allocation
        self.most = method.most_of_prompt
        self._pooled: dict[str, int] = {}
        self._rows = 1

    def figures(self, trainer: Trainer) -> dict[str, Any]:
        """Return what is said of the second stage, too."""
        return super().figures(trainer) | self._pooled

    def extend(self, trainer: Trainer, rollouts: Rollouts) -> RolloutBatch:
        """Return this process's rows of both stages that teach, as many in every process.

        `rollouts` are the first stage's, scored.
        """
        import torch
        from accelerate.utils import gather_object

        group, right_PN = int(trainer.num_generations), rollouts.right_PN
        numbers = gather_object([row["row"] for row in rollouts.rows])[::group]
        right_P = right_PN.sum(dim=1).tolist()
        first = [p for p in range(len(right_P)) for _ in range(group)]
        more = [
            p
            for p, right in enumerate(right_P)
            for _ in range(extra_rollouts(right, group, self.allocation, self.most))
        ]
        # rows of both stages and all processes, in the order of row ids; some only fill up
        prompts, real, stages = list(first), [True] * len(first), [rollouts.batch]
        rewards, rights = [rollouts.total_B], [right_PN.flatten()]
        rated = [rollouts.rated_B]
        for begin in range(0, len(more), len(first)):
            portion = more[begin : begin + len(first)]
            whole = group * trainer.accelerator.num_processes
            filled = portion + portion[:1] * (-len(portion) % whole)
            further = self._sample(trainer, [numbers[p] for p in filled], rollouts)
            further.batch["row_ids_B"] = further.batch["row_ids_B"] + len(prompts)
            stages.append(further.batch)
            prompts += filled
            real += [index < len(portion) for index in range(len(filled))]
            rewards.append(further.total_B)
            rights.append(further.right_PN.flatten())
            rated.append(further.rated_B)
        reward_B, right_B = torch.cat(rewards), torch.cat(rights)
        prompt_B, real_B = (torch.tensor(rows).to(reward_B.device) for rows in (prompts, real))
        real_B = real_B & torch.cat(rated)
        advantage_B, teaches_B = pooled_advantages(reward_B, right_B, prompt_B, real_B)
        self._rows = max(1, int(teaches_B.sum()))
        solved = set(prompt_B[right_B.bool() & real_B].tolist())
        self._pooled = {
            "rollouts/extra": len(more),
            "groups/second_stage": len(set(more)),
            "groups/rescued": sum(right == 0 and p in solved for p, right in enumerate(right_P)),
            "groups/taught": len(set(prompt_B[teaches_B].tolist())),
        }
        both = _joined(stages, trainer.processing_class.pad_token_id)
        both["advantages"] = advantage_B[both["row_ids_B"]]
        return self._levelled(trainer, both, teaches_B)

    def parts(self, trainer: Trainer, batch: RolloutBatch) -> list[tuple[float, RolloutBatch]]:
        """Return a micro-batch in parts of at most `rl.micro_batch` rows, with their weights.

        The weights make the sum of the parts' losses one over all rows that teach. Parts are kept,
        because what is shaped at an iteration's first pass holds for the later ones.
        """
        if "parts" not in batch:
            at_once = trainer.args.per_device_train_batch_size
            rows = len(batch["row_ids_B"])
            scale = trainer.args.steps_per_generation * trainer.accelerator.num_processes
            cuts = [slice(i, min(i + at_once, rows)) for i in range(0, rows, at_once)]
            batch["parts"] = [
                (scale * (cut.stop - cut.start) / self._rows, rows_of(batch, cut)) for cut in cuts
            ]
        return batch["parts"]

    def _sample(self, trainer: Trainer, numbers: Sequence[int], first: Rollouts) -> Rollouts:
        """Return this process's share of further completions of these prompts, scored."""
        share = len(numbers) // trainer.accelerator.num_processes
        begin = trainer.accelerator.process_index * share
        rows = [self.setup.population[number] for number in numbers[begin : begin + share]]
        return trainer.score_rows(rows, first=first)

    def _levelled(self, trainer: Trainer, batch: RolloutBatch, teaches_B: Tensor) -> RolloutBatch:
        """The rows that teach, and masked ones up to the same number for every micro-batch."""
        import torch
        from accelerate.utils import gather_object

        mine_B = teaches_B[batch["row_ids_B"]]
        chosen = mine_B.nonzero().flatten()
        slots = trainer.args.steps_per_generation
        most = max(1, *gather_object([len(chosen)]))
        lacking = -(-most // slots) * slots - len(chosen)
        index = torch.cat([chosen, chosen.new_zeros(lacking)])
        batch = rows_of(batch, index)
        batch["completion_mask"] = batch["completion_mask"].clone()
        batch["completion_mask"][len(chosen) :] = 0
        return batch


def _joined(stages: Sequence[RolloutBatch], pad_id: int) -> RolloutBatch:
    """Batches below each other, padded to the longest; counts are summed."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    batches = [cast("dict[str, Any]", stage) for stage in stages]
    joined: dict[str, Any] = {}
    for name, value in batches[0].items():
        values = [batch[name] for batch in batches]
        if not isinstance(value, torch.Tensor):
            joined[name] = value
        elif value.dim() < 2:
            joined[name] = torch.cat(values) if value.dim() else torch.stack(values).sum()
        else:
            rows = [row for values_BT in values for row in values_BT]
            fill = pad_id if name.endswith("_ids") else 0
            side = "left" if name in _ON_THE_LEFT else "right"
            joined[name] = pad_sequence(rows, True, fill, side)
    return cast("RolloutBatch", joined)
