"""Which completions the KL term holds: all, or those that their grades choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from sage_cli.settings.sections.anchor import Rows


def anchored_rows(rows: Rows, right_B: Tensor, group_right_B: Tensor) -> Tensor:
    """Return True (B,) for each completion that the KL term acts on.

    `right_B` are grades, `group_right_B` the share of right completions in each row's group. Where
    it is 0 or 1 the advantages are 0, and under `all` the anchor alone moves the policy there:
    `informative` leaves such groups out. `wrong` is the baseline of APO (arXiv 2602.05717).
    """
    if rows == "wrong":
        return ~right_B
    if rows == "right":
        return right_B
    if rows == "informative":
        return ~equal_rows(group_right_B)
    return torch.ones_like(right_B)


def equal_rows(group_right_B: Tensor) -> Tensor:
    """Return True (B,) for the completions of groups that are all right or all wrong."""
    return (group_right_B == 0) | (group_right_B == 1)
