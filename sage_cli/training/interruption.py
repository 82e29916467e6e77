"""A training run that stops, or saves, where a signal or the clock asks it to."""

from __future__ import annotations

from time import monotonic
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather
from transformers import TrainerCallback

from sage_cli.training.launch import StopSignals

SAVING_SHARE = 0.05
"""The largest share of a training's time that checkpoints by the clock take."""


class Interruption(TrainerCallback):  # type: ignore[misc]
    """A trainer's callback, which stops or saves at the boundaries of `signals`.

    At every boundary, each `signals.period` optimiser steps, all processes agree on what any of
    them heard: to stop, with a checkpoint, or to save because `save_minutes` have passed since the
    last one, or 19 times as long as that one took.
    """

    def __init__(self, trainer: Any, signals: StopSignals, save_minutes: float) -> None:
        self._trainer, self._signals, self._save_s = trainer, signals, 60 * save_minutes
        self._saved_at = monotonic()

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """At a boundary, request a checkpoint, and the end if a signal asked for it."""
        self._signals.done(state.global_step, state.max_steps)
        if state.global_step % self._signals.period:
            return
        late = monotonic() - self._saved_at >= wait_s(self._save_s, self._trainer.saving_s)
        # the maximum over all processes: each hears signals and reads its clock at another moment,
        # and one that stops alone leaves the others in a collective operation
        number, due = self._signals.number, int(late)
        place = PartialState()
        if place.num_processes > 1:
            gathered = gather(torch.tensor([[number, due]], device=place.device))
            number, due = gathered.amax(dim=0).tolist()
        if number:
            self._signals.number = number
            control.should_training_stop = True
        if number or due:
            control.should_save = True

    def on_save(self, *_: Any, **__: Any) -> None:
        """Count the minutes from here."""
        self._saved_at = monotonic()


def wait_s(asked_s: float, saving_s: float) -> float:
    """Return seconds from a checkpoint that took `saving_s` to the next one by the clock.

    As asked, or so many that saving takes SAVING_SHARE of the time: saving / (saving + waiting).
    """
    return max(asked_s, saving_s * (1 - SAVING_SHARE) / SAVING_SHARE)
