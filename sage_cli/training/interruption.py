"""Stops a training between two steps when a signal asks for it, and saves it by the clock."""

from __future__ import annotations

from time import monotonic
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather
from transformers import TrainerCallback

from sage_cli.store.run import Run
from sage_cli.training.checkpoints import interrupted
from sage_cli.training.processes import is_launched
from sage_cli.training.stop_signals import StopSignals


class Interruption(TrainerCallback):  # type: ignore[misc]
    """A trainer's callback; as a context, around the training, it hears the signals.

    At every boundary, each `period` optimiser steps, all processes agree on what any of them
    heard: to stop, with a checkpoint, or to save because `save_minutes` have passed since the last
    one. Leaving the context raises Interrupted where the training was stopped.
    """

    def __init__(self, run: Run, save_minutes: float, period: int = 1) -> None:
        self.run, self.save_s, self.period = run, 60 * save_minutes, period
        self._signals = StopSignals(patient=is_launched())
        self._saved_at = monotonic()

    def __enter__(self) -> Interruption:
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._signals.__exit__(kind, *rest)
        if kind is None and self._signals.number:
            raise interrupted(self._signals.number, self.run)

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask the trainer for a checkpoint, and for the end, where this is a boundary."""
        if state.global_step % self.period:
            return
        late = monotonic() - self._saved_at >= self.save_s
        number, due = _highest(self._signals.number, int(late))
        if number:
            self._signals.number = number
            control.should_training_stop = True
        if number or due:
            control.should_save = True

    def on_save(self, *_: Any, **__: Any) -> None:
        """Count the minutes from here."""
        self._saved_at = monotonic()


def _highest(*values: int) -> list[int]:
    """The highest of each value over all processes that train together."""
    state = PartialState()
    if state.num_processes == 1:
        return list(values)
    every = gather(torch.tensor([values], device=state.device))
    highest: list[int] = every.amax(dim=0).tolist()
    return highest
