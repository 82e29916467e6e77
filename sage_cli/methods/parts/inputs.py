"""Inputs of a method's formulas, and the check of their output."""

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
class Texts:
    """The texts of a generation batch, and the ids of their problems, a row each."""

    completions: tuple[str, ...]
    problem_ids: tuple[str, ...]


@dataclass(frozen=True)
class AdvantageInputs:
    """One generation batch of all processes: P prompts with N completions each, B = P x N rows.

    Row p N + n is prompt p's completion n, so that `rewards_PN.flatten()` is in the rows' order.
    `rewards_PN` is what is to be maximised (1 for a right answer, plus punishments where there are
    some), `right_PN` 1 for right answers and 0 for others, `mask_BT` 1 on the completions' tokens.
    `step` counts optimiser steps from 0 to `steps` - 1. `read_signals` computes the policy's
    signals when one of them is first asked for, `read_hidden` a measure of hidden states. `memory`
    is what a method keeps from batch to batch, plain JSON values: checkpoints hold it. `beta` is
    the anchor's weight in this step; `read_reference` and `read_texts` give the reference's
    log-probabilities, and each row's text and problem.

    Every process calls a method on the same inputs and takes its own rows of the result: it must
    depend on nothing else, so that the processes agree.
    """

    rewards_PN: Tensor
    right_PN: Tensor
    mask_BT: Tensor
    step: int
    steps: int
    read_signals: Callable[[], tuple[Tensor, Tensor]] = field(repr=False)
    read_hidden: Callable[[Measure], Tensor] | None = field(default=None, repr=False)
    memory: dict[str, Any] = field(default_factory=dict)
    beta: float = 0.0
    read_reference: Callable[[], Tensor] | None = field(default=None, repr=False)
    read_texts: Callable[[], Texts] | None = field(default=None, repr=False)

    @property
    def logps_BT(self) -> Tensor:
        """The policy's log-probabilities of the tokens it sampled; costs a pass over the batch."""
        return self._signals[0]

    @property
    def entropy_BT(self) -> Tensor:
        """The entropies of the distributions they were sampled from; the same pass gives both."""
        return self._signals[1]

    @cached_property
    def reference_logps_BT(self) -> Tensor:
        """The reference's log-probabilities of the sampled tokens, without a guide's log q.

        Raises TrainingError where the training has no reference.
        """
        if self.read_reference is None:
            raise TrainingError(
                "the reference's log-probabilities are read, and there is no reference",
                "use --kl reverse with an anchor.beta above 0",
            )
        return self.read_reference()

    @property
    def texts_B(self) -> tuple[str, ...]:
        """The completions' texts."""
        return self._texts.completions

    @property
    def problem_ids_B(self) -> tuple[str, ...]:
        """The id of each completion's problem."""
        return self._texts.problem_ids

    def of_hidden(self, measure: Measure) -> Tensor:
        """(B, M): `measure`, of a completion's last hidden states (T, D); a pass over the batch."""
        if self.read_hidden is None:
            raise TrainingError("hidden states can't be read here", "choose another method")
        return self.read_hidden(measure)

    @cached_property
    def _texts(self) -> Texts:
        if self.read_texts is None:
            raise TrainingError("texts can't be read here", "choose another method")
        return self.read_texts()

    @cached_property
    def _signals(self) -> tuple[Tensor, Tensor]:
        return self.read_signals()


@dataclass(frozen=True)
class Update:
    """A micro-batch of one process in one update of the policy, whose loss is about to be computed.

    `advantages_BT` are the generation batch's. `logps_BT` are the policy's as it is now, with
    gradient; `old_logps_BT` those of the policy that sampled the rows; entropies likewise, and
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
        """Return where the clipped loss has no gradient: the ratio is past its end on A's side."""
        if self.clip is None:
            return torch.zeros_like(self.mask_BT, dtype=torch.bool)
        ratio_BT, (low, high) = self.log_ratio_BT.detach().exp(), self.clip
        above_BT = (ratio_BT > 1 + high) & (self.advantages_BT > 0)
        return above_BT | ((ratio_BT < 1 - low) & (self.advantages_BT < 0))


def checked(
    found: Any, name: str, inputs: AdvantageInputs | Update, *, by_row: bool = False
) -> Tensor:
    """Return advantages that the method `name` gives, as (B, T), or with `by_row` as (B,), too.

    Masked positions may hold anything finite. Raises TrainingError, with the name, for another
    shape, another type, NaN or infinity.
    """
    whole = tuple(inputs.mask_BT.shape)
    shapes = [whole[:1], whole] if by_row else [whole]
    if not isinstance(found, Tensor) or found.shape not in shapes:
        given = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise TrainingError(
            f"{name} gives {given} for a batch of {whole[0]} completions, {whole[1]} tokens long",
            f"return a tensor of shape {' or '.join(map(str, shapes))}",
        )
    wrong = int((~found.isfinite()).sum())
    if wrong:
        raise TrainingError(
            f"{name} gives NaN or infinity at {wrong} of {found.numel()} places in step "
            f"{inputs.step}",
            "groups of equal rewards have deviation 0: don't divide by it alone; see "
            "sage_cli.methods.parts.contract",
        )
    return found
