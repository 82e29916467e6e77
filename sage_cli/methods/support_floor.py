"""A floor under right texts of the initial policy on problems that it seldom solves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.hooks import Hooks, Setup
from sage_cli.methods.initial_texts import InitialTexts
from sage_cli.methods.method import PlainAdvantages

if TYPE_CHECKING:
    from torch import Tensor


class SupportFloor(PlainAdvantages):
    """GRPO, and a hinge on rare right texts: it acts below the floor alone, and never downwards."""

    algo: Literal["support-floor"] = "support-floor"
    weight: float = Field(1.0, gt=0)
    """Weight of the hinge. At 1 a text below its floor pulls as a rollout of advantage 1 does."""
    margin_nats: float = Field(2.0, ge=0)
    """A text's floor: so many nats below its log-probability under the initial policy."""
    initial_samples: int = Field(32, ge=1)
    """Completions sampled once from the initial policy, of each problem that the training comes
    to."""
    seldom: float = Field(0.25, gt=0, le=1)
    """A problem has a floor where no more than this share of them are right, and one is."""

    source = (
        "a public essay, unreviewed: a one-sided hinge on the log-probability of right texts of "
        "the initial policy"
    )
    fidelity = "reduced"
    read_from = "secondary"
    differs = (
        "the hinge is divided by the text's tokens; at most rollouts_per_prompt texts of a "
        "problem; margin, weight and `seldom` are ours"
    )
    kl_without_guide = "none"

    def hooks(self, setup: Setup) -> Hooks:
        """Return what stores the texts and holds them."""
        return FlooredTexts(self, setup, self.weight)

    def describe(self) -> dict[str, Any]:
        """Return the hinge, and where it acts."""
        where = f"right texts where at most {self.seldom:.0%} of {self.initial_samples} are right"
        floor = f"{self.margin_nats:g} nats below the start x {self.weight:g}, {where}"
        return {**super().describe(), "floor": floor}


class FlooredTexts(InitialTexts):
    """Stores the distinct right texts of seldom solved problems."""

    name = "floor"
    method: SupportFloor

    def kept(self, problem: int, right: Sequence[bool]) -> list[int]:
        """Return one sample of each right text of a seldom solved problem, the first ones."""
        if sum(right) / len(right) > self.method.seldom:
            return []
        samples = self.setup.initial[problem]
        first = {tuple(samples[n][1]): n for n in reversed(range(len(right))) if right[n]}
        return sorted(first.values())[: self.method.rollouts_per_prompt]

    def values(self, logps_BT: Tensor, start_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """Return max(0, log pi_0 - margin - log pi) / tokens (B,) of each text."""
        below_B = ((start_BT - logps_BT) * mask_BT).sum(dim=1) - self.method.margin_nats
        return below_B.relu() / mask_BT.sum(dim=1)
