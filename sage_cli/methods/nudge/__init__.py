"""NudgeRL: some rollouts are sampled with a hint, and a distillation does without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.parts.hinting import Hinting
from sage_cli.methods.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.hooks import Hooks, Setup
    from sage_cli.methods.parts.inputs import AdvantageInputs


class Nudge(Hinting, PolicyGradient):
    """NudgeRL (Lee et al. 2026). A context is the beginning of a worked solution."""

    algo: Literal["nudge"] = "nudge"
    contexts: int = Field(2, ge=1)
    """Contexts of a problem: the first shows one line of its worked solution, the second two, and
    so on; its last line is never shown. A group's rollouts are divided among them equally."""
    dropout: float = Field(0.5, ge=0, le=1)
    """Chance of each rollout to be sampled without its context."""
    between: float = Field(1.1, ge=0)
    """Weight of what a context's mean reward is beyond the group's (their lambda)."""
    distillation: float = Field(0.1, ge=0)
    """Weight of the distillation: completions are learnt without their context, too."""

    source = (
        "Lee et al. 2026 (arXiv 2605.15726, NudgeRL): rollouts with hints, advantages within and "
        "between them, and a distillation without them"
    )
    fidelity = "reduced"
    read_from = "code"
    differs = (
        "contexts are beginnings of the worked solution, theirs keywords that another model writes "
        "for each problem"
    )
    kl_without_guide = "none"

    @property
    def computed_by_trl(self) -> Literal["none"]:
        """The centred rewards, which the hooks replace: contexts are theirs."""
        return "none"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the advantages of groups without contexts, a row each."""
        from sage_cli.methods.nudge.formula import PLAIN, nudged_advantages

        context_PN = inputs.rewards_PN.new_full(inputs.rewards_PN.shape, PLAIN)
        return nudged_advantages(inputs.rewards_PN, context_PN, self.between).flatten()

    def hooks(self, setup: Setup) -> Hooks:
        """Return what asks with contexts and distils without them."""
        from sage_cli.methods.nudge.nudged import NudgedRollouts

        return NudgedRollouts(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Dynamic sampling, which would sample without contexts."""
        found = super().refusals(beside)
        if self.dynamic_sampling:
            found.append(
                "rl.algo 'nudge' samples with contexts, and rl.dynamic_sampling would replace "
                "groups by others without (use rl.dynamic_sampling=false)"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The contexts."""
        lines = "1 line" if self.contexts == 1 else f"1 to {self.contexts} lines"
        said = f"{lines} of the worked solution, dropped with chance {self.dropout:g}"
        return {**super().describe(), "contexts": f"{said}; distilled x {self.distillation:g}"}
