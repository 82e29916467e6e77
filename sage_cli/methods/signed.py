"""Advantages by grade alone, without a baseline (Zhu et al. 2025): psr, nsr and w-reinforce."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

from pydantic import Field

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
        """Return the conflicts: settings that these advantages don't read, or that drop groups."""
        refusals = super().refusals(beside)
        return [*refusals, *self.reads_grades_alone(), *self.learns_from_equal_groups()]


class Psr(SignedAdvantages):
    """Positive sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["psr"] = "psr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): right completions alone, without a baseline"
    differs = "wrong rows count in the mean over tokens, where their code leaves them out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 1 and 0."""
        return 1.0, 0.0


class Nsr(SignedAdvantages):
    """Negative sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["nsr"] = "nsr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions alone; diverges when long"
    differs = "right rows count in the mean over tokens, where their code leaves them out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 0 and -1."""
        return 0.0, -1.0


class WReinforce(SignedAdvantages):
    """W-REINFORCE (Zhu et al. 2025)."""

    algo: Literal["w-reinforce"] = "w-reinforce"
    right_weight: float = Field(0.1, ge=0)
    """Advantage of a right completion; a wrong one has -1."""

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions weigh more than right ones"
    differs = "without their entropy bonus of .001; PPO's clip and a mean over tokens as theirs"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return `right_weight` and -1."""
        return self.right_weight, -1.0
