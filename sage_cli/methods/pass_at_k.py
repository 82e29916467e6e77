"""Pass@k training: the reward of a set of k completions is its best grade."""

from __future__ import annotations

from functools import lru_cache
from math import comb, sqrt
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Beside, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class PassAtK(PolicyGradient):
    """Pass@k training (Chen et al. 2025)."""

    algo: Literal["pass-at-k"] = "pass-at-k"
    k: int = Field(4, ge=1)
    """Completions in a set."""

    source = "Chen et al. 2025 (arXiv 2508.10751): the reward of a set of k is its best grade"
    read_from = "code"
    differs = "on GRPO's loss; S without the code's 1e-6"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `pass_at_k_advantages` of the grades, a row each."""
        return pass_at_k_advantages(inputs.right_PN, self.k).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: sets as large as the group, and rewards that are no grades."""
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
        return [*refusals, *self.reads_grades_alone()]


def pass_at_k_advantages(right_PN: Tensor, k: int) -> Tensor:
    """Return the advantage of being in a set of k that has a right completion (Chen et al. 2025).

    With c of N right, R = 1 - C(N-c, k) / C(N, k) and S = sqrt(R (1 - R)), a right completion has
    (1 - R) / S and a wrong one (1 - R - C(N-c-1, k-1) / C(N-1, k-1)) / S. 0 where no set of k
    differs from another: none right, or more than N - k. The authors' code adds 1e-6 to S.
    """
    import torch

    values = torch.tensor(_pass_at_k_values(right_PN.shape[1], k)).to(right_PN)
    of_wrong_P, of_right_P = values[right_PN.sum(dim=1).long()].T
    return torch.where(right_PN.bool(), of_right_P[:, None], of_wrong_P[:, None])


@lru_cache
def _pass_at_k_values(n: int, k: int) -> list[tuple[float, float]]:
    """(wrong, right) completions' advantages by how many of n are right."""
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
