"""The base of every guide: a positive factor q on the anchor, clamped, 1 outside the mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sage_cli.guides.signals import Signals

Signal = Literal["policy", "reference"]
Clock = Literal["optimiser_step", "loss_call"]


class Guide(ABC):
    """q(x, y) = prod_t q_t(x, y_<t, y_t) of Eqs. 3 and 7.

    A guide of one's own is a frozen dataclass with the fields `q_min` and `q_max` that implements
    `q`; clamp, mask and detachment are done here. `signal` names the model whose signals it
    reads: the current policy or the frozen reference. `clock` says what its steps are: optimiser
    steps, or calls of the loss, of which an optimiser step has one for each micro-batch.
    """

    q_min: float = 0.6
    q_max: float = 1.4
    signal: Signal = "policy"
    clock: Clock = "optimiser_step"

    def now(self, step: int, call: int, calls: int) -> int:
        """What the clock shows in loss call `call` of the `calls` of optimiser step `step`.

        All count from 0. Nothing is remembered, so that a resumed training goes on where it was.
        """
        return step if self.clock == "optimiser_step" else step * calls + call

    @abstractmethod
    def q(self, signals: Signals, step: int) -> Tensor:
        """Unclamped factors q_BT at the clock's `step`; masked positions may hold anything."""

    @torch.no_grad()
    def log_q(self, signals: Signals, step: int) -> Tensor:
        """log q_BT, clamped to [log q_min, log q_max], 0 outside the mask, without gradient."""
        q_BT = self.q(signals, step).detach().clamp(self.q_min, self.q_max)
        return torch.where(signals.mask_BT.bool(), q_BT.log(), torch.zeros_like(q_BT))


@dataclass(frozen=True)
class NoGuide(Guide):
    """q = 1: the anchor is the reference itself."""

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Ones."""
        return torch.ones_like(signals.logps_BT)
