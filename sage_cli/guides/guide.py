"""The base of every guide: a positive factor q on the anchor, clamped, 1 outside the mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sage_cli.config.plugins import named
from sage_cli.errors import TrainingError
from sage_cli.guides.signals import OptionalSignal, Signals

Signal = Literal["policy", "reference"]
Clock = Literal["optimiser_step", "loss_call"]
SIGNALS, CLOCKS = get_args(Signal), get_args(Clock)


class Guide(ABC):
    """q(x, y) = prod_t q_t(x, y_<t, y_t) of Eqs. 3 and 7.

    A guide of one's own is a frozen dataclass with the fields `q_min` and `q_max` that implements
    `q`; clamp, mask and detachment are done here. `signal` names the model whose signals it
    reads: the current policy or the frozen reference; `needs` names what it reads besides (see
    `Signals`), and nothing that isn't named is computed. `clock` says what its steps are:
    optimiser steps, or calls of the loss, of which an optimiser step has one for each micro-batch.
    """

    q_min: float = 0.6
    q_max: float = 1.4
    signal: Signal = "policy"
    needs: frozenset[OptionalSignal] = frozenset()
    clock: Clock = "optimiser_step"

    def now(self, step: int, call: int, calls: int) -> int:
        """What the clock shows in loss call `call` of the `calls` of optimiser step `step`.

        All count from 0. Nothing is remembered, so that a resumed training goes on where it was.
        """
        return step if self.clock == "optimiser_step" else step * calls + call

    @property
    def reads_reference(self) -> bool:
        """Whether it looks at the reference at all."""
        named = any(name.startswith("reference_") for name in self.needs)
        return self.signal == "reference" or named

    @property
    def reads_reference_entropy(self) -> bool:
        """Whether the reference's entropies have to be computed as well."""
        return self.signal == "reference" or "reference_entropy_BT" in self.needs

    @abstractmethod
    def q(self, signals: Signals, step: int) -> Tensor:
        """Unclamped factors q_BT at the clock's `step`; masked positions may hold anything."""

    @torch.no_grad()
    def log_q(self, signals: Signals, step: int) -> Tensor:
        """log q_BT, clamped to [log q_min, log q_max], 0 outside the mask, without gradient.

        Raises TrainingError, with the guide's name, where `q` gives another shape, NaN or
        infinity, or needs a signal that there isn't, and ConfigurationError where another
        package's `q` raises.
        """
        lacking = sorted(self.needs - signals.optional.keys())
        if lacking:
            raise TrainingError(
                f"{_title(self)} needs {', '.join(lacking)}, which isn't known here",
                "a guide can need what sage_cli.guides.signals lists; what reads completions "
                "without a reference has none of its signals",
            )
        read = signals.only(self.needs, _title(self))
        with named("q of guide", type(self)):
            q_BT = self.q(read, step)
        _check(self, q_BT, signals)
        q_BT = q_BT.detach().to(signals.logps_BT).clamp(self.q_min, self.q_max)
        return torch.where(signals.mask_BT.bool(), q_BT.log(), torch.zeros_like(q_BT))


@dataclass(frozen=True)
class NoGuide(Guide):
    """q = 1: the anchor is the reference itself."""

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Ones."""
        return torch.ones_like(signals.logps_BT)


def _check(guide: Guide, q_BT: Any, signals: Signals) -> None:
    """Raise TrainingError where `q_BT` is no factor for each token.

    What comes of NaN or infinity in the signals is the training's fault, which says so itself.
    """
    expected = tuple(signals.logps_BT.shape)
    if not isinstance(q_BT, Tensor) or q_BT.shape != expected:
        found = tuple(q_BT.shape) if isinstance(q_BT, Tensor) else f"a {type(q_BT).__name__}"
        raise TrainingError(
            f"q of {_title(guide)} is {found}, and the batch is {expected} (completions, tokens)",
            "return one factor for each token, as signals.logps_BT is laid out",
        )
    valid_BT = signals.mask_BT.bool()
    wrong_BT = ~q_BT.isfinite() & valid_BT
    read = (signals.logps_BT, signals.entropy_BT, *signals.optional.values())
    if wrong_BT.any() and all(values_BT[valid_BT].isfinite().all() for values_BT in read):
        what = "NaN" if (q_BT.isnan() & valid_BT).any() else "infinite"
        raise TrainingError(
            f"q of {_title(guide)} is {what} for {int(wrong_BT.sum())} of the batch's "
            f"{int(valid_BT.sum())} tokens",
            "check it with sage_cli.guides.contract.GuideContract; a division by 0 and the "
            "logarithm of what isn't positive are the usual causes",
        )


def _title(guide: Guide) -> str:
    """`guide Mine (package.module)`."""
    return f"guide {type(guide).__name__} ({type(guide).__module__})"
