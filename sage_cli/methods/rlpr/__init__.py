"""RLPR: the gold's probability in the answer's place pays, instead of the grade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.policy_gradient import PlainAdvantages

if TYPE_CHECKING:
    from sage_cli.methods.parts.hooks import Hooks, Setup


class Rlpr(PlainAdvantages):
    """RLPR (Yu et al. 2025). The reward is the gold's mean probability, grades are logged."""

    algo: Literal["rlpr"] = "rlpr"
    epsilon_high: float = Field(0.27, gt=0)
    reward_filter: float = Field(0.5, ge=0)
    """From step 11 on, groups whose rewards deviate by less than this share of the running average
    teach nothing. RLPR: .5 for Qwen, .9 for Llama, 1.0 for Gemma; 0 keeps all."""

    source = (
        "Yu et al. 2025 (arXiv 2506.18254): the gold's probability in the answer's place as "
        "reward, groups of little deviation left out"
    )
    read_from = "code"
    differs = "groups that are left out stay in the batch with advantage 0"
    kl_without_guide = "none"

    def hooks(self, setup: Setup) -> Hooks:
        """Return what pays for probabilities and leaves groups out."""
        from sage_cli.methods.rlpr.reward import ProbabilityHooks

        return ProbabilityHooks(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with prompts without an answer tag and with readers of grades."""
        found = [*super().refusals(beside), *self.ignores_rewards("the gold's probability")]
        if beside.prompt.answer != "tags":
            found.append(
                "rl.algo 'rlpr' puts the gold between the answer's tags, and prompt.answer is "
                f"'{beside.prompt.answer}' (use prompt.answer=tags)"
            )
        reading = {
            "rl.advantage 'beta'": self.advantage == "beta",
            "rl.dynamic_sampling": self.dynamic_sampling,
        }
        found += [
            f"{name} reads grades, and rl.algo 'rlpr' pays for probabilities: completions would "
            "be chosen by another thing than what is paid for (leave it out)"
            for name, reads in reading.items()
            if reads
        ]
        return found

    def describe(self) -> dict[str, Any]:
        """The reward."""
        return super().describe() | {"reward": "probability"}
