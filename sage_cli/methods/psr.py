"""PSR: learn from right completions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sage_cli.methods.method import Beside
from sage_cli.methods.policy_gradient import Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.inputs import AdvantageInputs


class Psr(PolicyGradient):
    """Positive sample reinforcement (Zhu et al. 2025): advantages 1 and 0."""

    algo: Literal["psr"] = "psr"
    loss: Loss = "dapo"

    source = "Zhu et al. 2025 (arXiv 2506.01347): right completions alone, without a baseline"
    read_from = "code"
    differs = "wrong rows count in the mean over tokens, where their code leaves them out"
    kl_without_guide = "none"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return 1 for right completions and 0 for others, a row each."""
        return inputs.right_PN.flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Settings that read what these advantages don't, or drop what they learn from."""
        found = super().refusals(beside)
        return [*found, *self.reads_grades_alone(), *self.learns_from_equal_groups()]
