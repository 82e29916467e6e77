"""Advantages that are shaped token by token in every update."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.clipping import CLIPPING, Loss
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.policy_gradient import PlainAdvantages, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Shaped, Update


class EntropyShaped(PolicyGradient):
    """Entropy-shaped advantages (Cheng et al. 2025)."""

    algo: Literal["entropy-shaped"] = "entropy-shaped"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    entropy_weight: float = Field(0.4, ge=0)
    """Weight alpha of the entropy: the amount that one nat of a token's entropy adds to its
    advantage."""
    kappa: float = Field(2.0, gt=1)
    """Limit of the added advantage: at most |A| / kappa is added."""

    source = "Cheng et al. 2025 (arXiv 2506.14758): A + min(alpha H, |A| / kappa), token by token"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A + min(alpha H, |A| / kappa): more of it where the policy hesitates.

        The sign of A stays, for kappa above 1; where A is 0 nothing is added.
        """
        import torch

        # |A| / kappa < |A|, so that the bonus never turns a punished token into a rewarded one
        most_BT = update.advantages_BT.abs() / self.kappa
        return update.advantages_BT + torch.minimum(
            self.entropy_weight * update.entropy_BT, most_BT
        )


class Steer(PolicyGradient):
    """STEER (Hao et al. 2025)."""

    algo: Literal["steer"] = "steer"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    delta: float | None = Field(10.0, gt=1)
    steps_per_generation: int = Field(16, ge=1)
    form: Literal["linear", "exp"] = "linear"
    """Form of the weights, which is a function of Omega: `linear` between the extremes, or `exp`, a
    power of `minimum_weight`."""
    omega: Literal["code", "paper"] = "code"
    """Source whose formula is used for a token's entropy change: the authors' `code` or their
    `paper`."""
    minimum_weight: float = Field(0.8, gt=0, le=1)
    """Weight that the tokens with the greatest Omega have."""
    maximum_weight: float = Field(1.2, ge=1)
    """Weight of the tokens with the least Omega. With `exp`, it is always 1."""

    source = "Hao et al. 2025 (arXiv 2510.10150): less weight where the entropy would move most"
    read_from = "code"
    differs = "extremes are a micro-batch's, as theirs are"
    kl_without_guide = "none"
    shapes_tokens = True
    reads_old_entropy = True

    def shape(self, update: Update) -> Tensor:
        """Return A times a weight, the lower the more a token's update would move the entropy.

        `linear`: from the maximum where Omega is least in the micro-batch to the minimum where it
        is greatest, 1 where all are equal. `exp`: minimum ^ (Omega / max(greatest Omega, .02)).
        Under `omega=paper` tokens past the clip range keep their weight of 1.
        """
        import torch

        omega_BT, low, high = (
            steer_omega(update, self.omega),
            self.minimum_weight,
            self.maximum_weight,
        )
        of_tokens = omega_BT[update.mask_BT.bool()]
        if not len(of_tokens):
            return update.advantages_BT
        least, greatest = of_tokens.min(), of_tokens.max()
        if self.form == "exp":
            # low^(Omega / greatest): 1 at Omega = 0, and low at the greatest; 0.02 keeps a batch in
            # which nothing moves from being weighted by its noise
            weight_BT = (log(low) * omega_BT / greatest.clamp(min=0.02)).exp()
        elif greatest == least:
            weight_BT = torch.ones_like(omega_BT)
        else:
            weight_BT = high - (high - low) * (omega_BT - least) / (greatest - least)
        if self.omega == "paper":
            weight_BT = torch.where(update.clipped_BT, 1.0, weight_BT)
        return update.advantages_BT * weight_BT * update.mask_BT


def steer_omega(update: Update, omega: str) -> Tensor:
    """How much a token's update moves the entropy, as the authors' code or their paper has it.

    `code`: |A pi (1 - pi) (log pi + H_old) / pi_old|, with the entropy of the sampling
    policy. `paper`: |rho A pi (1 - pi) (log pi + H)|, as others read it; one factor pi more.
    """
    logps_BT, ratio_BT = update.logps_BT.detach(), update.log_ratio_BT.detach().exp()
    pi_BT = logps_BT.exp()
    if omega == "code":
        rate_BT = ratio_BT * (1 - pi_BT) * (logps_BT + update.old_entropy_BT)
    else:
        rate_BT = ratio_BT * pi_BT * (1 - pi_BT) * (logps_BT + update.entropy_BT)
    return (update.advantages_BT * rate_BT).abs()


class Archer(PlainAdvantages):
    """Archer (Wang et al. 2025). Clip ranges act where a batch is used for several updates."""

    algo: Literal["archer"] = "archer"
    loss: Literal["grpo", "bnpo", "dapo", "dr_grpo"] = "dapo"
    """Loss, which decides how the policy's term is averaged. All of these are clipped token by
    token."""
    epsilon_low: float = Field(0.5, gt=0, le=1)
    """Lower clip range of uncertain tokens: their ratio is clipped below 1 - epsilon_low."""
    epsilon_high: float = Field(0.5, gt=0)
    """Upper clip range of uncertain tokens: their ratio is clipped above 1 + epsilon_high."""
    epsilon_certain: float = Field(0.2, gt=0, le=1)
    """Clip range that certain tokens have, below and above 1."""
    delta: float | None = Field(10.0, gt=1)
    steps_per_generation: int = Field(2, ge=1)

    source = (
        "Wang et al. 2025 (arXiv 2507.15778): KL weight 0 and clip range 0.5 on a completion's "
        "most uncertain fifth, 0.001 and 0.2 elsewhere"
    )
    read_from = "code"
    differs = (
        "one pass over a batch, theirs has three; the mean of the KL term counts all tokens, "
        "theirs certain ones; groups of equal grades count in means, theirs are left out; a "
        "preset's anchor.beta goes before 0.001"
    )
    learns_without_reward = False
    anchored = {"beta": 0.001, "tokens": "certain", "rows": "informative"}  # noqa: RUF012
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor | Shaped:
        """Return A, and 0 for certain tokens past their own clip range, which have no gradient.

        Where a token is clipped, by its own range or by the wider one of uncertain tokens, which
        the loss applies to all.
        """
        from sage_cli.methods.formulas import Shaped

        if not self.clip:
            return update.advantages_BT
        # TRL's loss has one clip range, the wider one of uncertain tokens: the narrower is applied
        # here by an advantage of 0, whose term has no gradient, as a clipped one has none
        narrow = replace(update, clip=(self.epsilon_certain, self.epsilon_certain))
        clipped_BT = narrow.clipped_BT & ~update.uncertain_BT
        advantages_BT = update.advantages_BT.masked_fill(clipped_BT, 0.0)
        return Shaped(advantages_BT, clipped_BT | update.clipped_BT)


class ClipCov(PolicyGradient):
    """Clip-Cov (Cui et al. 2025)."""

    algo: Literal["clip-cov"] = "clip-cov"
    loss: Loss = "dapo"
    epsilon_low: float = Field(1.0, gt=0, le=1)
    epsilon_high: float = Field(1.0, gt=0)
    dynamic_sampling: bool = True
    steps_per_generation: int = Field(8, ge=1)
    share: float = Field(2e-4, gt=0, le=1)
    """Share of a micro-batch's tokens that is left out of the loss."""
    covariance_low: float = 1.0
    """Lower end of the covariances whose tokens may be left out."""
    covariance_high: float = 5.0
    """Upper end of the covariances whose tokens may be left out."""

    source = "Cui et al. 2025 (arXiv 2505.22617): leaves out a few tokens by which entropy falls"
    read_from = "code"
    differs = "one token at least of each micro-batch, as theirs"
    kl_without_guide = "none"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A, and 0 for some of the tokens whose covariance lies between the bounds.

        max(1, `share` of the micro-batch's tokens) are drawn, of those that aren't clipped already.
        """
        import numpy as np
        import torch

        covariance_BT = covariances(update)
        between_BT = (covariance_BT > self.covariance_low) & (covariance_BT < self.covariance_high)
        candidates = (between_BT & ~update.clipped_BT).flatten().nonzero().flatten().tolist()
        count = min(_covariance_count(update, self.share), len(candidates))
        # a generator of its own, from the micro-batch's seed: a resumed run draws the same tokens,
        # and the draw shifts no other random number of the training
        drawn = np.random.default_rng(update.seed).choice(candidates, count, replace=False)
        kept_BT = torch.ones_like(covariance_BT)
        kept_BT.view(-1)[torch.as_tensor(drawn, dtype=torch.long, device=kept_BT.device)] = 0
        return update.advantages_BT * kept_BT


class KlCov(PolicyGradient):
    """KL-Cov (Cui et al. 2025)."""

    algo: Literal["kl-cov"] = "kl-cov"
    loss: Loss = "dapo"
    clip: bool = False
    dynamic_sampling: bool = True
    steps_per_generation: int = Field(8, ge=1)
    share: float = Field(2e-3, gt=0, le=1)
    """Share of a micro-batch's tokens, those with the greatest covariance, that is penalised by a
    KL term."""
    kl_coefficient: float = Field(1.0, ge=0)
    """Weight that |log rho| has in the loss of the penalised tokens."""

    source = "Cui et al. 2025 (arXiv 2505.22617): holds back the tokens by which entropy falls most"
    read_from = "code"
    differs = "one token at least of each micro-batch, as theirs"
    kl_without_guide = "none"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A - coefficient |log rho| / rho for the tokens of greatest covariance, a share.

        The loss -rho A of those then has the term coefficient |log rho|, with its gradient. Only
        covariances above 0 count: where all advantages are 0, all are equal and the choice would be
        anybody's.
        """
        import torch

        covariance_BT = covariances(update)
        greatest = covariance_BT.flatten().topk(_covariance_count(update, self.share))
        chosen_BT = torch.zeros_like(covariance_BT, dtype=torch.bool)
        chosen_BT.view(-1)[greatest.indices] = True
        chosen_BT &= covariance_BT > 0  # masked tokens have 0
        log_ratio_BT = update.log_ratio_BT
        # divided by the ratio rho, because the loss multiplies advantages by it: -rho (A - c |log
        # rho| / rho) = -rho A + c |log rho|
        held_BT = self.kl_coefficient * log_ratio_BT.abs() / log_ratio_BT.exp()
        return update.advantages_BT - torch.where(chosen_BT, held_BT, 0.0)

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: updates whose ratio is 1, and losses that its term does not fit."""
        refusals = super().refusals(beside)
        if self.steps_per_batch == 1:
            refusals.append(
                "rl.algo 'kl-cov' holds tokens back by |log pi / pi_old|, and with one update per "
                "generation that is 0 with gradient 0 (use rl.iterations or "
                "rl.steps_per_generation above 1)"
            )
        if self.clip or self.loss not in CLIPPING:
            refusals.append(
                "rl.algo 'kl-cov' adds to a loss that isn't clipped, and the loss is "
                f"'{self.loss}' with rl.clip={str(self.clip).lower()} (use rl.clip=false with one "
                f"of {', '.join(CLIPPING)})"
            )
        return refusals


def covariances(update: Update) -> Tensor:
    """(A - mean A) (log pi - mean log pi), means over the micro-batch's tokens; 0 where masked."""
    mask_BT, logps_BT = update.mask_BT.bool(), update.logps_BT.detach()
    tokens = mask_BT.sum().clamp(min=1)
    apart = [
        values_BT - (values_BT * mask_BT).sum() / tokens
        for values_BT in (update.advantages_BT, logps_BT)
    ]
    return apart[0] * apart[1] * mask_BT


def _covariance_count(update: Update, share: float) -> int:
    """Return how many tokens a share of the micro-batch's is, one at least."""
    return max(1, int(share * int(update.mask_BT.sum())))
