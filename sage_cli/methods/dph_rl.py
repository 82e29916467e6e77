"""DPH-RL: a divergence holds what the initial policy nearly solves, rewards move the rest.

A batch of P problems has the loss 1/P (sum of the explored ones' policy terms + weight times the
sum of the held ones' divergences): rollouts of a held problem have advantage 0, and the row of its
first rollout brings the problem's stored completion through the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.hooks import Batch, Hooks, Setup, Trainer
from sage_cli.methods.initial_texts import InitialTexts
from sage_cli.methods.method import Beside, PlainAdvantages

if TYPE_CHECKING:
    from torch import Tensor

Divergence = Literal["forward", "js", "alpha"]
WEIGHTS: dict[Divergence, float] = {"forward": 0.03, "js": 0.125, "alpha": 0.03}
"""The middle of the authors' ranges: .01 to .05, .05 to .2, .01 to .05."""


class DphRl(PlainAdvantages):
    """DPH-RL (Li et al. 2025). A problem is held, by the divergence, or explored, for rewards."""

    algo: Literal["dph-rl"] = "dph-rl"
    epsilon_high: float = Field(0.28, gt=0)
    divergence: Divergence = "js"
    """From the initial policy, on its completions: `forward` KL, Jensen-Shannon or `alpha`."""
    alpha: float = Field(0.2, gt=0, lt=1)
    """Order of the divergence `alpha`."""
    weight: float | None = Field(None, ge=0)
    """Weight of the divergence; null is .03 for `forward` and `alpha`, .125 for `js`."""
    initial_samples: int = Field(8, ge=1)
    """Completions sampled once from the initial policy, of each problem that the training comes
    to."""
    solved: float = Field(1.0, gt=0, le=1)
    """A problem is held where at least this share of them is right."""
    log_ratio_limit: float = Field(3.0, gt=0)
    """Above this log pi - log pi_initial of a token the divergence goes on with the slope it has
    there: it grows with pi / pi_initial, which a token that was unlikely at first may have any of.
    """

    source = (
        "Li et al. 2025 (arXiv 2509.07430): on problems that the initial policy nearly solves a "
        "divergence from it, on its own completions; rewards without KL on the others"
    )
    fidelity = "reduced"
    read_from = "code"
    differs = (
        "both kinds of problems come in one order, so that rollouts of held ones are sampled and "
        "teach nothing; a held completion is one of those that were graded"
    )
    kl_without_guide = "none"

    @property
    def weighs(self) -> float:
        """The divergence's weight."""
        return WEIGHTS[self.divergence] if self.weight is None else self.weight

    def hooks(self, setup: Setup) -> Hooks:
        """Return what holds problems and leaves their rollouts out."""
        return HeldProblems(self, setup, self.weighs)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with what replaces held problems or holds them twice."""
        refusals = super().refusals(beside)
        refusals += self.idle("alpha", "divergence=alpha", self.divergence == "alpha")
        if self.dynamic_sampling:
            refusals.append(
                "rl.algo 'dph-rl' holds problems that are nearly solved, and rl.dynamic_sampling "
                "would replace just them (use rl.dynamic_sampling=false)"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the divergence, and where it acts."""
        order = f" {self.alpha:g}" if self.divergence == "alpha" else ""
        held = (
            f"{self.divergence}{order} x {self.weighs:g}, where at least {self.solved:.0%} of "
            f"{self.initial_samples} initial samples are right"
        )
        return {**super().describe(), "divergence": held}


def divergence(log_ratio_BT: Tensor, kind: Divergence, *, alpha: float, limit: float) -> Tensor:
    """f(u) of each token, u = pi / P on text of P, so that its mean over P is a divergence.

    forward: u - 1 - log u, whose mean is KL(P | pi); js: u log u - (u + 1) log((u + 1) / 2), for
    m = (pi + P) / 2 the sum KL(pi | m) + KL(P | m), twice the usual; alpha, of order a:
    (u^(1 - a) - (1 - a) u - a) / (a (a - 1)). All are 0 with gradient 0 at u = 1.

    Above `limit` f goes on in log u with the slope that it has there: f grows with u, and a token
    that P found unlikely may have any. A mere cut would leave such a token where it is. Below 1
    nothing explodes.
    """
    log_u_BT = log_ratio_BT.clamp(max=limit)
    more_BT = log_u_BT.expm1()  # u - 1, exact near u = 1
    if kind == "forward":
        found_BT = more_BT - log_u_BT
    elif kind == "js":
        found_BT = log_u_BT.exp() * log_u_BT - (more_BT + 2) * (more_BT / 2).log1p()
    else:
        powered_BT = ((1 - alpha) * log_u_BT).expm1()
        found_BT = (powered_BT - (1 - alpha) * more_BT) / (alpha * (alpha - 1))
    return found_BT + slope(limit, kind, alpha=alpha) * (log_ratio_BT - limit).relu()


def slope(log_u: float, kind: Divergence, *, alpha: float) -> float:
    """Return the derivative of f(u) in log u."""
    u = math.exp(log_u)
    if kind == "forward":
        return u - 1
    return u * math.log(2 * u / (u + 1)) if kind == "js" else (u - u ** (1 - alpha)) / alpha


def held_completion(right: Sequence[bool], share: float) -> int | None:
    """The first right completion of a problem, None where less than `share` of them are right."""
    return list(right).index(True) if any(right) and sum(right) / len(right) >= share else None


class HeldProblems(InitialTexts):
    """Holds the nearly solved problems by their first right completion."""

    name = "divergence"
    method: DphRl
    _here = 0

    @property
    def record(self) -> dict[str, Any]:
        """Return how many problems of the generation batch are held."""
        return {**super().record, "groups/held": self._here}

    def kept(self, problem: int, right: Sequence[bool]) -> list[int]:
        """Return the first right completion of a nearly solved problem."""
        _ = problem
        number = held_completion(right, self.method.solved)
        return [] if number is None else [number]

    def values(self, logps_BT: Tensor, start_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the divergence (B,) on each problem's completion, a mean over its tokens."""
        import torch

        log_ratio_BT = torch.where(mask_BT.bool(), logps_BT - start_BT, 0.0)
        method = self.method
        values_BT = divergence(
            log_ratio_BT, method.divergence, alpha=method.alpha, limit=method.log_ratio_limit
        )
        return values_BT.sum(dim=1) / mask_BT.sum(dim=1)  # where it is masked u is 1 and f 0

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return the batch's advantages, 0 for rollouts of held problems."""
        import torch

        held, advantages = self.stored(trainer), batch["advantages"]
        held_B = torch.tensor([row in held for row in batch["prompt_row_B"].tolist()])
        held_B = held_B.to(advantages.device)
        self._here = int(trainer.accelerator.gather(held_B).sum()) // right_PN.shape[1]
        shaped_B = held_B.reshape(-1, *[1] * (advantages.dim() - 1))
        return torch.where(shaped_B, torch.zeros_like(advantages), advantages)
