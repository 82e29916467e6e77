"""The share of beta, the anchor's weight, by step."""

from __future__ import annotations

import math
from typing import Literal

AnchorSchedule = Literal["constant", "cosine"]


def share_of_beta(schedule: AnchorSchedule, step: int, steps: int) -> float:
    """The share of beta_0 in optimiser step `step` (from 0) of `steps`.

    `cosine`: (1 + cos(pi t / T)) / 2, from 1 down to 0 after the last step (Chen et al. 2025b).
    """
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * step / steps)) / 2
