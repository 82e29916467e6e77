"""DPH-RL: a divergence holds what the initial policy nearly solves, rewards move the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.policy_gradient import PlainAdvantages

if TYPE_CHECKING:
    from sage_cli.methods.parts.hooks import Hooks, Setup

Divergence = Literal["forward", "js", "alpha"]
WEIGHTS: dict[Divergence, float] = {"forward": 0.03, "js": 0.125, "alpha": 0.03}
"""The middle of the authors' ranges: .01 to .05, .05 to .2, .01 to .05."""


class DphRl(PlainAdvantages):
    """DPH-RL (Li et al. 2025). A problem is held, by the divergence, or explored, for rewards."""

    algo: Literal["dph-rl"] = "dph-rl"
    epsilon_high: float = Field(0.28, gt=0)
    divergence: Divergence = "js"
    """From the initial policy, on its completions: `forward` KL, Jensen-Shannon or `alpha`."""
    alpha: float = Field(0.2, gt=0, lt=1)
    """Order of the divergence `alpha`."""
    weight: float | None = Field(None, ge=0)
    """Weight of the divergence; null is .03 for `forward` and `alpha`, .125 for `js`."""
    initial_samples: int = Field(8, ge=1)
    """Completions sampled once from the initial policy, of each problem that the training comes
    to."""
    solved: float = Field(1.0, gt=0, le=1)
    """A problem is held where at least this share of them is right."""
    log_ratio_limit: float = Field(3.0, gt=0)
    """Above this log pi - log pi_initial of a token the divergence goes on with the slope it has
    there: it grows with pi / pi_initial, which a token that was unlikely at first may have any of.
    """

    source = (
        "Li et al. 2025 (arXiv 2509.07430): on problems that the initial policy nearly solves a "
        "divergence from it, on its own completions; rewards without KL on the others"
    )
    fidelity = "reduced"
    read_from = "code"
    differs = (
        "both kinds of problems come in one order, so that rollouts of held ones are sampled and "
        "teach nothing; a held completion is one of those that were graded"
    )
    kl_without_guide = "none"

    @property
    def weighs(self) -> float:
        """The divergence's weight."""
        return WEIGHTS[self.divergence] if self.weight is None else self.weight

    @property
    def samples_beforehand(self) -> int:
        """`initial_samples`."""
        return self.initial_samples

    def hooks(self, setup: Setup) -> Hooks:
        """Return what holds problems and leaves their rollouts out."""
        from sage_cli.methods.dph_rl.held import HeldProblems

        return HeldProblems(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with what replaces held problems or holds them twice."""
        found = super().refusals(beside)
        found += self.idle("alpha", "divergence=alpha", self.divergence == "alpha")
        if self.dynamic_sampling:
            found.append(
                "rl.algo 'dph-rl' holds problems that are nearly solved, and rl.dynamic_sampling "
                "would replace just them (use rl.dynamic_sampling=false)"
            )
        if beside.anchor.kl == "forward":
            found.append(
                "anchor.kl 'forward' is a divergence on stored completions, and rl.algo 'dph-rl' "
                "has one of its own (use --kl none with rl.divergence=forward)"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The divergence, and where it acts."""
        order = f" {self.alpha:g}" if self.divergence == "alpha" else ""
        held = (
            f"{self.divergence}{order} x {self.weighs:g}, where at least {self.solved:.0%} of "
            f"{self.initial_samples} initial samples are right"
        )
        return {**super().describe(), "divergence": held}
