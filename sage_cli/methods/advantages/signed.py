"""Advantages by grade alone, without a baseline: the base of psr, nsr and w-reinforce."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from sage_cli.methods.method import Beside, Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class SignedAdvantages(PolicyGradient):
    """Settings of methods that give right and wrong completions a constant each."""

    loss: Loss = "dapo"

    read_from = "code"
    kl_without_guide = "none"

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

    def refusals(self, beside: Beside) -> list[str]:
        """Settings that read what these advantages don't, or drop what they learn from."""
        found = super().refusals(beside)
        return [*found, *self.reads_grades_alone(), *self.learns_from_equal_groups()]
