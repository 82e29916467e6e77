"""A method's formulas: their inputs, the check of their output, and those that several share."""

# ruff: noqa: N802 (shape suffixes are part of a property's name)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sage_cli.errors import TrainingError
from sage_cli.guides.divergences import uncertain_tokens

_EPSILON = 1e-4
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
    `rewards_PN` is what is to be maximised (1 for a correct answer, plus punishments where there
    are some), `right_PN` 1 for correct answers and 0 for others, `mask_BT` 1 on the completions'
    tokens. `step` counts optimiser steps from 0 to `steps` - 1. `read_signals` computes the
    policy's signals when one of them is first asked for, `read_hidden` a measure of hidden states.
    `memory` is what a method keeps from batch to batch, plain JSON values: checkpoints hold it.
    `beta` is the anchor's weight in this step; `read_reference` and `read_texts` give the
    reference's log-probabilities, and each row's text and problem.

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
    rated_PN: Tensor | None = field(default=None, repr=False)
    """False for completions of which no reward says anything; None where all are rated. Their
    `rewards_PN` are the mean of their group's others, and their advantages 0."""

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
    `uncertain_share` is `anchor.uncertain_share`.
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
    uncertain_share: float = 0.2

    @property
    def uncertain_BT(self) -> Tensor:
        """Return the tokens that `anchor.tokens` calls uncertain, by the policy as it is now."""
        return uncertain_tokens(self.entropy_BT, self.mask_BT, self.uncertain_share)

    @property
    def log_ratio_BT(self) -> Tensor:
        """log pi - log pi_old, with gradient."""
        return self.logps_BT - self.old_logps_BT

    @property
    def clipped_BT(self) -> Tensor:
        """Return where the clipped loss has no gradient: the ratio is past its end on A's side."""
        if self.clip is None:
            return torch.zeros_like(self.mask_BT, dtype=torch.bool)
        # PPO's min(r A, clip(r) A): with A > 0 the clipped branch is the smaller one, and without
        # gradient, above 1 + high only; with A < 0 below 1 - low only. A ratio past the other end
        # keeps its gradient, which brings it back.
        ratio_BT, (low, high) = self.log_ratio_BT.detach().exp(), self.clip
        above_BT = (ratio_BT > 1 + high) & (self.advantages_BT > 0)
        return above_BT | ((ratio_BT < 1 - low) & (self.advantages_BT < 0))


@dataclass(frozen=True)
class Shaped:
    """Advantages of a method that clips by itself, and where it did: `clip_ratio` counts these."""

    advantages_BT: Tensor
    clipped_BT: Tensor


def checked(
    values: Any, name: str, inputs: AdvantageInputs | Update, *, by_row: bool = False
) -> Tensor:
    """Return advantages that the method `name` gives, as (B, T), or with `by_row` as (B,), too.

    Masked positions may hold anything finite. Raises TrainingError, with the name, for another
    shape, another type, NaN or infinity.
    """
    whole = tuple(inputs.mask_BT.shape)
    shapes = [whole[:1], whole] if by_row else [whole]
    if not isinstance(values, Tensor) or values.shape not in shapes:
        given = tuple(values.shape) if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise TrainingError(
            f"{name} gives {given} for a batch of {whole[0]} completions, {whole[1]} tokens long",
            f"return a tensor of shape {' or '.join(map(str, shapes))}",
        )
    wrong = int((~values.isfinite()).sum())
    if wrong:
        raise TrainingError(
            f"{name} returns NaN or infinity in {wrong} of {values.numel()} places in "
            f"step {inputs.step}",
            "groups with equal rewards have standard deviation 0, so do not divide by "
            "it alone; see sage_cli.testing.MethodContract",
        )
    return values


def group_advantages(rewards_PN: Tensor, rated_PN: Tensor | None = None) -> Tensor:
    """(r - mean) / (std + 1e-4) within each group, std with n - 1 (Shao et al. 2024, GRPO).

    The n are those that are `rated_PN`; others have the mean for their reward, and advantage 0. A
    rated completion alone has advantage 0, too.
    """
    centred_PN = centred_advantages(rewards_PN)
    if rated_PN is None or rated_PN.all():
        # 1e-4 is TRL's: equal rewards give 0 / 1e-4 = 0 instead of NaN
        return centred_PN / (rewards_PN.std(dim=1, keepdim=True) + _EPSILON)
    centred_PN = centred_PN * rated_PN
    # unrated rows have the mean as their reward, so that they change neither the mean nor the
    # squares: only the count of the deviation must leave them out
    others_P1 = (rated_PN.sum(dim=1, keepdim=True) - 1).clamp(min=1)
    deviation_P1 = (centred_PN.square().sum(dim=1, keepdim=True) / others_P1).sqrt()
    return centred_PN / (deviation_P1 + _EPSILON)


def centred_advantages(rewards_PN: Tensor) -> Tensor:
    """r - mean within each group (Liu et al. 2025, Dr. GRPO)."""
    return rewards_PN - rewards_PN.mean(dim=1, keepdim=True)


def broadcast_rows(values_B: Tensor, advantages: Tensor) -> Tensor:
    """Return values of rows in a shape that goes with advantages, (B,) or (B, T)."""
    return values_B if advantages.dim() == 1 else values_B[:, None]


def completion_logps(inputs: AdvantageInputs, logps_BT: Tensor, *, mean: bool = False) -> Tensor:
    """(P, N): the sum of each completion's log-probabilities, or with `mean` their mean."""
    mask_BT = inputs.mask_BT
    logps_B = (logps_BT * mask_BT).sum(dim=1)
    if mean:
        logps_B = logps_B / mask_BT.sum(dim=1).clamp(min=1)
    return logps_B.reshape(inputs.rewards_PN.shape)


def beta_advantages(rewards_PN: Tensor) -> Tensor:
    """(r - p) / Beta(p; alpha, beta) for rewards in [0, 1] (Xiao et al. 2025, BNPO).

    p is a group's mean reward, m and v the mean and population variance of p over the batch;
    with s = m (1 - m) / v - 1 the density has alpha = max(1, 1 + s m / 3) and
    beta = max(1, 1 + s (1 - m) / 3). Where v = 0 (one group, or all p equal) the group's own
    normalisation is taken; a group of equal grades has advantage 0.
    """
    p_P1 = rewards_PN.mean(dim=1, keepdim=True)
    mean, variance = p_P1.mean(), p_P1.var(correction=0)
    if variance <= torch.finfo(rewards_PN.dtype).eps ** 2:
        return group_advantages(rewards_PN)
    # moment matching: a Beta distribution with mean m and variance v has alpha + beta = s; the
    # paper shrinks s to a third and keeps both parameters at 1 or more, so that the density is
    # bounded
    s = mean * (1 - mean) / variance - 1
    alpha, beta = (1 + s * mean / 3).clamp(min=1), (1 + s * (1 - mean) / 3).clamp(min=1)
    mixed_P1 = (p_P1 > 0) & (p_P1 < 1)
    # both branches of torch.where are computed, and at p = 0 or 1 the density's logarithm is NaN or
    # infinite
    inside_P1 = torch.where(mixed_P1, p_P1, torch.full_like(p_P1, 0.5))
    density_P1 = _beta_log_density(inside_P1, alpha, beta).exp()
    return torch.where(mixed_P1, (rewards_PN - p_P1) / density_P1, torch.zeros_like(rewards_PN))


def _beta_log_density(p_P1: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    log_norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
    return (alpha - 1) * p_P1.log() + (beta - 1) * (1 - p_P1).log() - log_norm
