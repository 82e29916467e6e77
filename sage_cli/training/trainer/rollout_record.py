"""Completions of a generation batch, as rows for people to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor


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
