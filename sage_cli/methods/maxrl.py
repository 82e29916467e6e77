"""MaxRL: centred rewards divided by the group's mean, so that rare successes weigh most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sage_cli.methods.method import Beside, Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs

_EPSILON = 1e-6


class MaxRl(PolicyGradient):
    """Maximum likelihood RL (Tajwar et al. 2026)."""

    algo: Literal["maxrl"] = "maxrl"
    loss: Loss = "dapo"

    source = "Tajwar et al. 2026 (arXiv 2602.02710): rewards divided by the group's success rate"
    read_from = "code"
    differs = "order N - 1 in a group of N, as their code has it"
    kl_without_guide = "none"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `maxrl_advantages` of the grades, a row each."""
        return maxrl_advantages(inputs.right_PN).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: punishments take rewards below 0, and the mean with them."""
        return [*super().refusals(beside), *self.reads_grades_alone()]


def maxrl_advantages(right_PN: Tensor) -> Tensor:
    """(r - m) / (m + 1e-6), m the group's mean; 0 where nothing is right (Tajwar et al. 2026).

    On average this weighs the gradient of a problem's success rate p by the sum over k from 1 to
    N - 1 of (1 - p)^(k-1), which tends to 1 / p, the gradient of log p.
    """
    mean_P1 = right_PN.mean(dim=1, keepdim=True)
    return (right_PN - mean_P1) / (mean_P1 + _EPSILON)
