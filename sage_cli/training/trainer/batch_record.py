"""Records of one generation batch: rewards, grades, groups, lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sage_cli.grading.grades import STATUSES


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
