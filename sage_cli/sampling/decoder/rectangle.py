"""Members of groups in a (group, rank) rectangle, so that groups are one batch."""

from __future__ import annotations

from typing import Any

import numpy as np

Indices = np.ndarray[Any, np.dtype[np.int64]]


def ranks(groups_B: Indices, groups: int) -> tuple[Indices, int]:
    """Return each member's rank (B,) within its group, from 0, and the largest group's size.

    >>> ranks(np.array([1, 0, 1]), groups=2)
    (array([0, 0, 1]), 2)
    """
    sizes_G = np.bincount(groups_B, minlength=groups)
    order_B = np.argsort(groups_B, kind="stable")
    ranks_B = np.empty_like(order_B)
    ranks_B[order_B] = np.arange(len(order_B)) - np.repeat(np.cumsum(sizes_G) - sizes_G, sizes_G)
    return ranks_B, int(sizes_G.max(initial=1))
