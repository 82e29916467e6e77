"""Records of generation batches and steps: figures, some completions to read, and their way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.runs.run import Run
from sage_cli.training.callbacks import OnStep
from sage_cli.training.checkpoints.safeguards import Safeguards


def batch_record(status_PN: Tensor, length_B: Tensor, clipped_B: Tensor) -> dict[str, Any]:
    """Statistics over all processes' completions, indices into STATUSES one row per prompt.

    `reward` is the share of right answers; a group has zero variance when its grades agree.
    """
    right_PN = (status_PN == STATUSES.index("right")).float()
    p_P = right_PN.mean(dim=1)
    return {
        "reward": right_PN.mean().item(),
        **{
            f"grade/{status}": int((status_PN == index).sum())
            for index, status in enumerate(STATUSES)
        },
        "groups/zero_variance": ((p_P == 0) | (p_P == 1)).float().mean().item(),
        "completions/length": length_B.float().mean().item(),
        "completions/clipped": clipped_B.float().mean().item(),
    }


def unfinished(completion_ids_BT: Tensor, mask_BT: Tensor, end_ids: list[int]) -> Tensor:
    """True (B,) for completions whose last token is no end of sequence."""
    last_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1) - 1
    final_B = completion_ids_BT.gather(1, last_B1).squeeze(1)
    return ~torch.isin(final_B, torch.tensor(end_ids, device=final_B.device))


def rollout_rows(
    prompts: Sequence[Mapping[str, Any]],
    completions: Sequence[str],
    statuses: Sequence[str],
    rewards_BF: Tensor,
    group: int,
    said: Sequence[Mapping[str, float | None]] = (),
) -> list[dict[str, Any]]:
    """The first completion of every prompt, where each prompt has `group` of them in a row.

    `reward` is the sum over the reward functions F, as the advantage is computed from, `rewards`
    what each of them says, where that is `said`.
    """
    rewards = rewards_BF.sum(dim=1).tolist()
    rows = [
        {
            "prompt": row["prompt"],
            "completion": text,
            "gold": row["gold"],
            "grade": status,
            "reward": reward,
        }
        for row, text, status, reward in zip(prompts, completions, statuses, rewards, strict=True)
    ]
    rows = [row | {"rewards": one} for row, one in zip(rows, said, strict=True)] if said else rows
    return rows[::group]


class StepWriter:
    """Writes `run`'s metrics and some rollouts of every `tracking.rollouts_every` steps.

    The safeguards remember the steps that the run has already.
    """

    def __init__(
        self, run: Run, tracking: TrackingSection, on_step: OnStep, *, stop_when_stuck: bool
    ) -> None:
        self.run, self.tracking, self.on_step = run, tracking, on_step
        self.safeguards = Safeguards(stop=stop_when_stuck)
        for earlier in run.metrics.read():
            self.safeguards.count(earlier)

    def write(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Called in the main process alone."""
        if (record["step"] - 1) % self.tracking.rollouts_every == 0:
            wanted = self.tracking.rollouts
            for row in rollouts if wanted == "all" else rollouts[:wanted]:
                self.run.rollouts.append({"step": record["step"], **row})
        self.run.metrics.append(record)  # last: who finds the step here finds its rollouts there
        self.on_step(record)
