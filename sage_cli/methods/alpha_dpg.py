"""alpha-DPG: the policy is drawn to the reference's right completions, by an alpha-divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.hooks import Generated, Hooks, Row, Setup, Trainer
from sage_cli.methods.initial_texts import right_beforehand
from sage_cli.methods.method import Beside, Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs

_SOLVED = "solved"
"""What a checkpoint calls the reference's pass@1 of each problem, as estimated beforehand."""


class AlphaDpg(PolicyGradient):
    """alpha-DPG (Kruszewski et al. 2025). The target is the reference filtered by the grade."""

    algo: Literal["alpha-dpg"] = "alpha-dpg"
    loss: Loss = "dr_grpo"
    alpha: float = Field(0.25, ge=0, lt=1)
    """Order of the divergence: 0 is the forward KL, which covers; towards 1 the reverse KL."""
    pseudo_reward_limit: float = Field(10.0, gt=0)
    """The most that a completion is paid: a right one that the policy has lost would be paid
    without bound."""
    initial_samples: int = Field(128, ge=1)
    """Completions sampled once from the initial policy, of each problem that the training comes to:
    the share of right ones normalises the target."""
    unsolved: float = Field(1e-4, gt=0, le=1)
    """The share that is taken where none of them is right."""

    source = (
        "Kruszewski et al. 2025 (arXiv 2512.05962): an alpha-divergence from the reference's right "
        "completions, in place of rewards and beta"
    )
    read_from = "code"
    differs = (
        "a batch that is used for several updates is clipped as GRPO's; the paper divides the "
        "pseudo-reward by 1 - alpha, the code and this don't"
    )
    kl_without_guide = "none"
    takes_a_guide = False
    keeps_reference = True
    reads_grades_alone = True
    equal_groups_teach = True

    def hooks(self, setup: Setup) -> Hooks:
        """Return what estimates the reference's pass@1."""
        return SolvedBeforehand(self, setup)

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return pseudo-rewards less the mean of the group's others', a row each."""
        from sage_cli.methods.formulas import centred_advantages, completion_logps

        solved, group = inputs.memory[_SOLVED], inputs.right_PN.shape[1]
        logps_PN, reference_PN = (
            completion_logps(inputs, logps_BT).double()
            for logps_BT in (inputs.logps_BT, inputs.reference_logps_BT)
        )
        shares = [solved[problem] or self.unsolved for problem in inputs.problem_ids_B[::group]]
        share_P1 = logps_PN.new_tensor(shares)[:, None]
        log_t_PN = logps_PN - reference_PN + share_P1.log()
        paid_PN = pseudo_rewards(inputs.right_PN, log_t_PN, self.alpha, self.pseudo_reward_limit)
        centred_PN = centred_advantages(paid_PN) * (group / (group - 1))
        return centred_PN.to(inputs.rewards_PN).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflict with a reference that is another model than the initial policy."""
        refusals = super().refusals(beside)
        if beside.anchor.reference != "initial":
            refusals.append(
                "rl.algo 'alpha-dpg' normalises its target by samples of the initial policy, and "
                "anchor.reference is 'base', another model (use anchor.reference=initial)"
            )
        return refusals


def pseudo_rewards(right_PN: Tensor, log_t_PN: Tensor, alpha: float, limit: float) -> Tensor:
    """Return t^(alpha - 1) - 1, at most `limit`, of right completions; -1 of wrong ones.

    t = pi / p* for the target p* = pi_ref right / Z, which gives wrong ones nothing: their t is
    infinite. On average over pi the gradient is 1 - alpha times that of the alpha-divergence.
    """
    import torch

    paid_PN = ((alpha - 1) * log_t_PN).expm1().clamp(max=limit)
    return torch.where(right_PN.bool(), paid_PN, -1.0)


class SolvedBeforehand(Hooks):
    """Estimates the reference's pass@1 with the first batch; checkpoints keep it."""

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Estimate it if it isn't known, and leave the sampling to the trainer."""
        if _SOLVED not in trainer.advantage_memory:
            right = right_beforehand(self.setup, trainer)
            trainer.advantage_memory[_SOLVED] = {
                self.setup.prompts[row][1].id: sum(of) / len(of) for row, of in right.items()
            }
        return super().sample(trainer, rows)
