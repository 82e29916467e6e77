"""PACS: grades as labels of the policy's log-ratios, a cross-entropy over each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.online import OnlineMethod

if TYPE_CHECKING:
    from sage_cli.methods.parts.hooks import Hooks, Setup


class Pacs(OnlineMethod):
    """PACS (Li et al. 2025). The anchor's term keeps `grpo`'s mean."""

    algo: Literal["pacs"] = "pacs"
    score_scale: float = Field(1.0, gt=0)
    """Weight of the log-ratio in a completion's score."""
    balanced_labels: bool = True
    """Right and wrong completions of a group count alike, however many there are of either."""

    source = (
        "Li et al. 2025 (arXiv 2509.02522): grades as labels of the policy's log-ratios, a "
        "cross-entropy over each group; no advantages, no clipping"
    )
    read_from = "code"
    kl_without_guide = "none"

    def hooks(self, setup: Setup) -> Hooks:
        """Return what puts its loss in the place of the clipped policy term."""
        from sage_cli.methods.pacs.loss import PacsLoss

        return PacsLoss(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflict with graded rewards: labels are right or wrong."""
        return [*super().refusals(beside), *self.ignores_rewards()]

    def describe(self) -> dict[str, Any]:
        """The loss."""
        weighted = "right and wrong of a group alike" if self.balanced_labels else "unweighted"
        loss = f"pacs, log-ratio x {self.score_scale:g}, {weighted}, no clipping"
        return {"loss": loss, **super().describe()}
