"""Rewards of sets of completions: pass@k training and PKPO."""

from __future__ import annotations

from functools import lru_cache
from math import comb, sqrt
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.clipping import Loss
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class PassAtK(PolicyGradient):
    """Pass@k training (Chen et al. 2025)."""

    algo: Literal["pass-at-k"] = "pass-at-k"
    k: int = Field(4, ge=1)
    """Number of completions that a set has."""

    source = "Chen et al. 2025 (arXiv 2508.10751): the reward of a set of k is its best grade"
    read_from = "code"
    differs = "on GRPO's loss; S without the code's 1e-6"
    reads_grades_alone = True

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `pass_at_k_advantages` of the grades, a row each."""
        return pass_at_k_advantages(inputs.right_PN, self.k).flatten()

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: sets as large as the group."""
        group, refusals = self.rollouts_per_prompt, super().refusals(beside)
        if self.k >= group:
            refusals.append(
                f"rl.k is {self.k}, and a group has {group} completions: "
                + (
                    "it has no subset of k"
                    if self.k > group
                    else "its only subset of k is the group, in which all advantages are alike"
                )
                + " (use a smaller k, or raise rl.rollouts_per_prompt)"
            )
        return refusals


def pass_at_k_advantages(right_PN: Tensor, k: int) -> Tensor:
    """Return the advantage of being in a set of k that has a correct completion (Chen et al. 2025).

    With c of N right, R = 1 - C(N-c, k) / C(N, k) and S = sqrt(R (1 - R)), a correct completion has
    (1 - R) / S and a wrong one (1 - R - C(N-c-1, k-1) / C(N-1, k-1)) / S. 0 where no set of k
    differs from another: none right, or more than N - k. The authors' code adds 1e-6 to S.
    """
    import torch

    values = torch.tensor(_pass_at_k_values(right_PN.shape[1], k)).to(right_PN)
    of_wrong_P, of_right_P = values[right_PN.sum(dim=1).long()].T
    return torch.where(right_PN.bool(), of_right_P[:, None], of_wrong_P[:, None])


@lru_cache
def _pass_at_k_values(n: int, k: int) -> list[tuple[float, float]]:
    """(wrong, right) completions' advantages by how many of n are correct."""
    values = []
    for c in range(n + 1):
        reward = 1 - comb(n - c, k) / comb(n, k)
        deviation = sqrt(reward * (1 - reward))
        if deviation == 0:
            values.append((0.0, 0.0))
            continue
        among_wrong = comb(n - c - 1, k - 1) / comb(n - 1, k - 1)
        values.append(((1 - reward - among_wrong) / deviation, (1 - reward) / deviation))
    return values


class Pkpo(PolicyGradient):
    """PKPO (Walder and Karkhanis 2025)."""

    algo: Literal["pkpo"] = "pkpo"
    loss: Loss = "dr_grpo"
    k: int = Field(4, ge=1)
    """Number k of completions of which the best one is rewarded."""
    form: Literal["favoured", "leave-one-out"] = "favoured"
    """Baseline with which the best of a set is compared: `favoured` is Eq. 33 of the method's
    paper, `leave-one-out` is Eq. 29."""
    anneal_after: int | None = Field(None, ge=0)
    """Step from which k is 1; null never changes k."""

    source = "Walder and Karkhanis 2025 (arXiv 2505.15201): unbiased gradient of the best of k"
    differs = "a length normaliser that is constant, Dr. GRPO's"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `pkpo_advantages` of the rewards, a row each."""
        annealed = self.anneal_after is not None and inputs.step >= self.anneal_after
        return pkpo_advantages(inputs.rewards_PN, 1 if annealed else self.k, self.form).flatten()

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: sets larger than what there is to choose them from."""
        group = self.rollouts_per_prompt
        most = group if self.form == "favoured" else group - 1
        if self.k <= most:
            return super().refusals(beside)
        return [
            *super().refusals(beside),
            f"rl.k is {self.k}, and '{self.form}' takes at most {most} of a group's {group} "
            "completions (use a smaller k, or raise rl.rollouts_per_prompt)",
        ]


def pkpo_advantages(rewards_PN: Tensor, k: int, form: str) -> Tensor:
    """Unbiased gradient weights of E[max of k] (Walder and Karkhanis 2025), times N.

    `favoured` (their Eq. 33): over all sets of k that hold a completion, what the best of the set
    loses without it; never negative. `leave-one-out` (Eq. 29): the best of those sets, minus the
    same statistic of the other completions; it isn't 0 where all rewards are equal. With k = 1
    both are the reward minus the others' mean. The factor N belongs to a mean over rows, where
    theirs is a sum.
    """
    import torch

    # in ascending order the weight of a reward depends on its rank alone, so that one matrix serves
    # all groups
    ascending_PN, order_PN = rewards_PN.sort(dim=1)
    weights_NN = torch.tensor(_pkpo_weights(rewards_PN.shape[1], k, form)).to(rewards_PN)
    return torch.zeros_like(rewards_PN).scatter(1, order_PN, ascending_PN @ weights_NN.T)


@lru_cache
def _pkpo_weights(n: int, k: int, form: str) -> list[list[float]]:
    """Return the weight of reward j in completion i's advantage, both in ascending order."""
    if k == 1:
        return [[1.0 if i == j else -1 / (n - 1) for j in range(n)] for i in range(n)]
    return [_favoured(n, k, i) if form == "favoured" else _leave_one_out(n, k, i) for i in range(n)]


def _favoured(n: int, k: int, i: int) -> list[float]:
    """Only sets whose best is i count; C(j, k-2) of them have j for their second."""
    # without its best the set's maximum is its second, j: k - 2 further members are below j
    seconds = [comb(j, k - 2) * n / comb(n, k) for j in range(i)]
    return [*(-weight for weight in seconds), sum(seconds), *[0.0] * (n - i - 1)]


def _leave_one_out(n: int, k: int, i: int) -> list[float]:
    """Sets with i, by their best; less k / (n-1) times the best of k of the others, on average."""
    weights = []
    for j in range(n):
        best = comb(j, k - 1) if j == i else comb(j - 1, k - 2) if j > i else 0
        below = j if j < i else j - 1
        others = comb(below, k - 1) / comb(n - 1, k) if j != i else 0.0
        weights.append(n * (best / comb(n, k) - k / (n - 1) * others))
    return weights
