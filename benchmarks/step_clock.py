"""When each step of a trainer begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback


class Clock(TrainerCallback):  # type: ignore[misc]
    """Seconds of each step but the last, with its record, by `clock`.

    A step is from its beginning to the next one's. The last one has the final checkpoint in it,
    which would count by how a trainer saves, and in a few steps' median.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.begins: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Note the time at which nothing of an earlier step is under way."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.begins.append(self.clock())

    @property
    def steps_s(self) -> list[float]:
        """Seconds of each step that another one follows."""
        return [b - a for a, b in zip(self.begins, self.begins[1:], strict=False)]
