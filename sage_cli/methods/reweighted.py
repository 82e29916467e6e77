"""Completions weighed by grade, rarity or likelihood within their group."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.clipping import Loss
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class SignedAdvantages(PolicyGradient):
    """Settings of methods that give correct and wrong completions a constant each."""

    loss: Loss = "dapo"

    read_from = "code"
    kl_without_guide = "none"
    reads_grades_alone = True
    equal_groups_teach = True

    @property
    @abstractmethod
    def right_and_wrong(self) -> tuple[float, float]:
        """Return the advantages of a right and of a wrong completion."""

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return one of two values by the grade (Zhu et al. 2025, section 3), a row each.

        Groups of equal grades teach, too: there is no baseline.
        """
        (right, wrong), right_PN = self.right_and_wrong, inputs.right_PN
        return (right_PN * right + (1 - right_PN) * wrong).flatten()


class Psr(SignedAdvantages):
    """Positive sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["psr"] = "psr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): correct completions alone, without a baseline"
    differs = "wrong rows count in the mean over tokens, where their code leaves them out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 1 and 0."""
        return 1.0, 0.0


class Nsr(SignedAdvantages):
    """Negative sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["nsr"] = "nsr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions alone; diverges when long"
    differs = "the mean over tokens also counts correct completions, which their code leaves out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 0 and -1."""
        return 0.0, -1.0


class WReinforce(SignedAdvantages):
    """W-REINFORCE (Zhu et al. 2025)."""

    algo: Literal["w-reinforce"] = "w-reinforce"
    right_weight: float = Field(0.1, ge=0)
    """Advantage of a correct completion; a wrong one has -1."""

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions weigh more than correct ones"
    differs = "without their entropy bonus of 0.001; PPO's clip and a mean over tokens as theirs"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return `right_weight` and -1."""
        return self.right_weight, -1.0


_EPSILON = 1e-6


class MaxRl(PolicyGradient):
    """Maximum likelihood RL (Tajwar et al. 2026)."""

    algo: Literal["maxrl"] = "maxrl"
    loss: Loss = "dapo"

    source = "Tajwar et al. 2026 (arXiv 2602.02710): rewards divided by the group's success rate"
    read_from = "code"
    differs = "order N - 1 in a group of N, as their code has it"
    kl_without_guide = "none"
    reads_grades_alone = True  # punishments take rewards below 0, and the mean with them

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `maxrl_advantages` of the grades, a row each."""
        return maxrl_advantages(inputs.right_PN).flatten()


def maxrl_advantages(right_PN: Tensor) -> Tensor:
    """(r - m) / (m + 1e-6), m the group's mean; 0 where nothing is correct (Tajwar et al. 2026).

    On average this weighs the gradient of a problem's success rate p by the sum over k from 1 to
    N - 1 of (1 - p)^(k-1), which tends to 1 / p, the gradient of log p.
    """
    mean_P1 = right_PN.mean(dim=1, keepdim=True)
    return (right_PN - mean_P1) / (mean_P1 + _EPSILON)


_LARGE = 64.0
"""An exponent whose exponential is neither infinite nor 0 in single precision."""


class RsGrpo(PolicyGradient):
    """Risk-sensitive GRPO (Jiang et al. 2025)."""

    algo: Literal["rs-grpo"] = "rs-grpo"
    risk: float = Field(2.0, gt=0)
    """Degree of risk seeking (beta in the method's paper). Towards 0, the advantages become r -
    mean."""

    source = "Jiang et al. 2025 (arXiv 2509.24261): exponential utility of rewards, seeking risk"
    read_from = "code"
    differs = "on GRPO's loss"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `risk_advantages` of the rewards, a row each."""
        return risk_advantages(inputs.rewards_PN, self.risk).flatten()


def risk_advantages(rewards_PN: Tensor, risk: float) -> Tensor:
    """Return (exp(b r) / mean exp(b r) - 1) / b within each group, b the `risk`."""
    exponents_PN = risk * rewards_PN
    highest_P1 = exponents_PN.amax(dim=1, keepdim=True)
    # a common factor cancels: large exponents are lowered, and usual ones stay as they are
    utility_PN = (exponents_PN - (highest_P1 - highest_P1.clamp(-_LARGE, _LARGE))).exp()
    return (utility_PN / utility_PN.mean(dim=1, keepdim=True) - 1) / risk


class Unlikeliness(PolicyGradient):
    """GRPO with the unlikeliness reward (He et al. 2025)."""

    algo: Literal["unlikeliness"] = "unlikeliness"
    iterations: int = Field(2, ge=1)
    rank_penalty: float = Field(0.25, ge=0, lt=1)
    """Penalty on likely completions: the most likely completion of a group, if it is correct, loses
    almost this share of its reward."""

    source = (
        "He et al. 2025 (arXiv 2506.02355): correct completions that are likely have a lower weight"
    )
    read_from = "code"
    differs = "on GRPO's loss; beta is anchor.beta, theirs is 0.1"
    equal_groups_teach = True

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages of `unlikely_rewards`, a row each."""
        from sage_cli.methods.formulas import completion_logps, group_advantages

        logps_PN = completion_logps(inputs, inputs.logps_BT)
        rewards_PN = unlikely_rewards(inputs.rewards_PN, logps_PN, self.rank_penalty)
        return group_advantages(rewards_PN, inputs.rated_PN).flatten()


def unlikely_rewards(rewards_PN: Tensor, logps_PN: Tensor, penalty: float) -> Tensor:
    """r (1 - penalty rank / N), the rank from 0 by ascending log-probability among all N."""
    rank_PN = logps_PN.argsort(dim=1, stable=True).argsort(dim=1)
    return rewards_PN * (1 - penalty * rank_PN.to(rewards_PN) / rewards_PN.shape[1])


class Ucpo(PolicyGradient):
    """UCPO (Lochab et al. 2026)."""

    algo: Literal["ucpo"] = "ucpo"
    moved_share: float = Field(0.2, ge=0, le=1)
    """Share of the correct completions' credit that is distributed by unlikeliness (tau in the
    method's paper)."""

    source = "Lochab et al. 2026 (arXiv 2605.00365): correct completions share credit by rarity"
    read_from = "code"
    differs = "on GRPO's loss, whose deviation has 1e-4 beside it"
    reads_grades_alone = True  # punishments may make correct completions' advantages negative

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages times `rarity_factors`, a row each."""
        from sage_cli.methods.formulas import completion_logps

        logps_PN = completion_logps(inputs, inputs.logps_BT, mean=True)
        factor_PN = rarity_factors(inputs.right_PN, logps_PN, self.moved_share)
        return super().advantages(inputs) * factor_PN.flatten().to(inputs.rewards_PN)


def rarity_factors(right_PN: Tensor, logps_PN: Tensor, share: float) -> Tensor:
    """n ((1 - share) / n + share w) for the n correct completions of a group, 1 for wrong ones.

    w is proportional to 1 / p over them, p their mean token's probability: the factors of a group's
    correct completions have mean 1.
    """
    import torch

    right_PN = right_PN.bool()
    weight_PN = torch.softmax((-logps_PN).masked_fill(~right_PN, -torch.inf), dim=1)
    count_P1 = right_PN.sum(dim=1, keepdim=True)
    # a group without a correct completion has NaN weights, which nothing reads
    return torch.where(right_PN, (1 - share) + share * count_P1 * weight_PN, 1.0)


class Mara(PolicyGradient):
    """GRPO with mode-anchored rewards (GX-Chen et al. 2025)."""

    algo: Literal["mara"] = "mara"
    likelihood: Literal["completion", "token"] = "completion"
    """Form of a completion's log pi_ref: `completion` is the sum over its tokens, `token` is their
    mean. A sum favours long completions."""
    most_added: float | None = Field(1.0, gt=0)
    """Upper limit of the amount by which a reward is raised; null means no limit."""

    source = (
        "GX-Chen et al. 2025 (arXiv 2510.20817): rewards that make correct answers equally likely"
    )
    read_from = "paper"
    differs = "the anchor completion is found within a group; rewards rise by most_added at most"
    equal_groups_teach = True

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages of `mode_anchored_rewards`, a row each."""
        from sage_cli.methods.formulas import completion_logps, group_advantages

        by_token = self.likelihood == "token"
        logps_PN = completion_logps(inputs, inputs.reference_logps_BT, mean=by_token)
        added_PN = mode_anchored_rewards(inputs.right_PN, logps_PN, inputs.beta) - inputs.right_PN
        if self.most_added is not None:
            added_PN = added_PN.clamp(max=self.most_added)
        return group_advantages(inputs.rewards_PN + added_PN, inputs.rated_PN).flatten()

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return an anchor without weight, which nothing is measured by."""
        refusals = super().refusals(beside)
        if beside.anchor.kl != "reverse" or beside.anchor.beta == 0:
            refusals.append(
                "rl.algo 'mara' raises rewards by anchor.beta times log pi_ref, and without a "
                "reverse KL of some weight it is grpo (use --kl reverse and a beta above 0)"
            )
        return refusals


def mode_anchored_rewards(right_PN: Tensor, logps_PN: Tensor, beta: float) -> Tensor:
    """1 + beta (log P(z) - log P(y)) for correct y, z the likeliest correct one; 0 for wrong ones.

    P is the reference without a guide. With beta KL(pi || P) beside it, the optimum over whole
    distributions gives every correct completion the same probability.
    """
    import torch

    right = right_PN.bool()
    highest_P1 = logps_PN.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
    return torch.where(right, 1 + beta * (highest_P1 - logps_PN), 0.0).to(right_PN)
