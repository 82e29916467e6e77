"""What an advantage is given, and what it owes the trainer."""

# ruff: noqa: N802 (shape suffixes are part of a property's name)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sage_cli.errors import TrainingError


@dataclass(frozen=True)
class AdvantageInputs:
    """One generation batch of all processes: P prompts with N completions each, B = P x N rows.

    Row p N + n is prompt p's completion n, so that `rewards_PN.flatten()` is in the rows' order.
    `rewards_PN` is what is to be maximised (1 for a right answer, plus punishments where there are
    some), `right_PN` 1 for right answers and 0 for others, `mask_BT` 1 on the completions' tokens.
    `step` counts optimiser steps from 0 to `steps` - 1. `read_signals` computes the policy's
    signals when one of them is first asked for.
    """

    rewards_PN: Tensor
    right_PN: Tensor
    mask_BT: Tensor
    step: int
    steps: int
    read_signals: Callable[[], tuple[Tensor, Tensor]] = field(repr=False)

    @property
    def logps_BT(self) -> Tensor:
        """The policy's log-probabilities of the tokens it drew; costs a pass over the batch."""
        return self._signals[0]

    @property
    def entropy_BT(self) -> Tensor:
        """The entropies of the distributions they were drawn from; the same pass gives both."""
        return self._signals[1]

    @cached_property
    def _signals(self) -> tuple[Tensor, Tensor]:
        return self.read_signals()


AdvantageFunction = Callable[[AdvantageInputs], Tensor]
"""Advantages (B,), one for each completion, or (B, T), one for each token.

Every process calls it on the same inputs and takes its own rows of the result: it must depend on
nothing else, so that the processes agree.
"""


@dataclass(frozen=True)
class Advantage:
    """A function with its name; calling it checks what the function gives.

    Without gradient; masked positions may hold anything finite. Raises TrainingError, with the
    name, for another shape, another type, NaN or infinity.
    """

    name: str
    function: AdvantageFunction

    @torch.no_grad()
    def __call__(self, inputs: AdvantageInputs) -> Tensor:
        """(B,) or (B, T), in the type of the rewards."""
        found: Any = self.function(inputs)
        rows, whole = (inputs.rewards_PN.numel(),), tuple(inputs.mask_BT.shape)
        if not isinstance(found, Tensor) or found.shape not in (rows, whole):
            given = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise TrainingError(
                f"{self.name} gives {given} for a batch of {rows[0]} completions, "
                f"{whole[1]} tokens long",
                f"return a tensor of shape {rows} or {whole}",
            )
        advantages = found.to(inputs.rewards_PN)
        wrong = int((~advantages.isfinite()).sum())
        if wrong:
            raise TrainingError(
                f"{self.name} gives NaN or infinity at {wrong} of "
                f"{advantages.numel()} places in step {inputs.step}",
                "groups of equal rewards have deviation 0: don't divide by it alone; see "
                "sage_cli.objectives.contract.AdvantageContract",
            )
        return advantages
