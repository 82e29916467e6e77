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

Measure = Callable[[Tensor], Tensor]
"""From the hidden states (T, D) of a completion to a few numbers (M,)."""


@dataclass(frozen=True)
class AdvantageInputs:
    """One generation batch of all processes: P prompts with N completions each, B = P x N rows.

    Row p N + n is prompt p's completion n, so that `rewards_PN.flatten()` is in the rows' order.
    `rewards_PN` is what is to be maximised (1 for a right answer, plus punishments where there are
    some), `right_PN` 1 for right answers and 0 for others, `mask_BT` 1 on the completions' tokens.
    `step` counts optimiser steps from 0 to `steps` - 1. `read_signals` computes the policy's
    signals when one of them is first asked for, `read_hidden` a measure of hidden states. `memory`
    is what an advantage keeps from batch to batch, plain JSON values: checkpoints hold it.
    """

    rewards_PN: Tensor
    right_PN: Tensor
    mask_BT: Tensor
    step: int
    steps: int
    read_signals: Callable[[], tuple[Tensor, Tensor]] = field(repr=False)
    read_hidden: Callable[[Measure], Tensor] | None = field(default=None, repr=False)
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def logps_BT(self) -> Tensor:
        """The policy's log-probabilities of the tokens it drew; costs a pass over the batch."""
        return self._signals[0]

    @property
    def entropy_BT(self) -> Tensor:
        """The entropies of the distributions they were drawn from; the same pass gives both."""
        return self._signals[1]

    def of_hidden(self, measure: Measure) -> Tensor:
        """(B, M): `measure`, of a completion's last hidden states (T, D); a pass over the batch."""
        if self.read_hidden is None:
            raise TrainingError("hidden states can't be read here", "choose another rl.advantage")
        return self.read_hidden(measure)

    @cached_property
    def _signals(self) -> tuple[Tensor, Tensor]:
        return self.read_signals()


AdvantageFunction = Callable[[AdvantageInputs], Tensor]
"""Advantages (B,), one for each completion, or (B, T), one for each token.

Every process calls it on the same inputs and takes its own rows of the result: it must depend on
nothing else, so that the processes agree.
"""


@dataclass(frozen=True)
class Update:
    """A micro-batch of one process in one update of the policy, whose loss is about to be computed.

    `advantages_BT` are the generation batch's. `logps_BT` are the policy's as it is now, with
    gradient; `old_logps_BT` those of the policy that drew the completions; entropies likewise, and
    without gradient. `clip` holds epsilon_low and epsilon_high, None where the ratio isn't clipped.
    `seed` is another one for each micro-batch, step and process, and the same when they come again.
    """

    advantages_BT: Tensor
    logps_BT: Tensor
    old_logps_BT: Tensor
    entropy_BT: Tensor
    old_entropy_BT: Tensor
    mask_BT: Tensor
    clip: tuple[float, float] | None
    step: int
    seed: tuple[int, ...]

    @property
    def log_ratio_BT(self) -> Tensor:
        """log pi - log pi_old, with gradient."""
        return self.logps_BT - self.old_logps_BT

    @property
    def clipped_BT(self) -> Tensor:
        """Where the clipped loss has no gradient: the ratio is past the end that A pushes it to."""
        if self.clip is None:
            return torch.zeros_like(self.mask_BT, dtype=torch.bool)
        ratio_BT, (low, high) = self.log_ratio_BT.detach().exp(), self.clip
        above_BT = (ratio_BT > 1 + high) & (self.advantages_BT > 0)
        return above_BT | ((ratio_BT < 1 - low) & (self.advantages_BT < 0))


ShapeFunction = Callable[..., Tensor]
"""Of an Update, and of options as keywords: advantages (B, T) in this update.

They may carry a gradient: the loss of a token is -ratio x advantage where nothing is clipped, so
that any loss of its own, L, is the advantage -L / ratio under `rl.clip=false`.
"""


@dataclass(frozen=True)
class ShapedAdvantage:
    """An advantage that is computed once for a generation batch, and shaped in every update of it.

    `reads_old_entropy` has the entropies at the completions' own policy kept for later updates;
    without it `old_entropy_BT` is the present policy's.
    """

    of: AdvantageFunction
    shape: ShapeFunction
    reads_old_entropy: bool = False


@dataclass(frozen=True)
class Advantage:
    """A function with its name; calling it checks what the function gives.

    Masked positions may hold anything finite. Raises TrainingError, with the name, for another
    shape, another type, NaN or infinity.
    """

    name: str
    function: AdvantageFunction
    shape: ShapeFunction | None = None
    reads_old_entropy: bool = False

    @torch.no_grad()
    def __call__(self, inputs: AdvantageInputs) -> Tensor:
        """(B,) or (B, T), in the type of the rewards, without gradient."""
        rows, whole = (inputs.rewards_PN.numel(),), tuple(inputs.mask_BT.shape)
        found: Any = self.function(inputs)
        return self._checked(found, (rows, whole), inputs.step).to(inputs.rewards_PN)

    def shaped(self, update: Update) -> Tensor:
        """(B, T), what the loss of this update reads."""
        if self.shape is None:
            return update.advantages_BT
        whole = tuple(update.mask_BT.shape)
        return self._checked(self.shape(update), (whole,), update.step).to(update.advantages_BT)

    def _checked(self, found: Any, shapes: tuple[tuple[int, ...], ...], step: int) -> Tensor:
        if not isinstance(found, Tensor) or found.shape not in shapes:
            given = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
            rows, tokens = shapes[-1]
            raise TrainingError(
                f"{self.name} gives {given} for a batch of {rows} completions, "
                f"{tokens} tokens long",
                f"return a tensor of shape {' or '.join(map(str, shapes))}",
            )
        wrong = int((~found.isfinite()).sum())
        if wrong:
            raise TrainingError(
                f"{self.name} gives NaN or infinity at {wrong} of {found.numel()} places in step "
                f"{step}",
                "groups of equal rewards have deviation 0: don't divide by it alone; see "
                "sage_cli.objectives.contract",
            )
        return found
