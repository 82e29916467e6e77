"""Advantages by how many directions a completion's hidden states take (Huang et al. 2025).

Reduced: one bonus for a completion. The authors' code puts it on the last token alone, and the
script that comes with it leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.loop import OtherSections
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings.sharding import sharding_of

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


BOUND = 5.0
"""Of a measure's distance from what it was, in units of that."""
LAST_TOKENS = 512


class EffectiveRank(PolicyGradient):
    """More advantage where the hidden states' effective rank is above its moving mean."""

    algo: Literal["effective-rank"] = "effective-rank"
    stride: int = Field(40, ge=2)
    """Number of tokens between the prefixes whose effective ranks are computed: the first has
    `stride` tokens, the second 2 `stride`, and so on."""
    momentum: float = Field(0.3, gt=0, le=1)
    """Share that the newest batch has in the moving averages."""
    kappa: float = Field(2.0, gt=1)
    """Limit of the added advantage: at most |A| / kappa is added."""

    source = "Huang et al. 2025 (arXiv 2509.23808): more where hidden states take more directions"
    fidelity = "reduced"
    read_from = "code"
    differs = (
        "one bonus for a completion; their code has it on the last token, their script not at all"
    )
    needs_whole_model = True

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return A + min(max(0, Phi), |A| / kappa), a row each, A the group's.

        mu is the moving mean of batch means, from 0.
        """
        import torch

        measures_B3 = inputs.of_hidden(lambda hidden_TD: measures(hidden_TD, self.stride))
        usual_3 = torch.tensor(inputs.memory.get("usual", [0.0, 0.0, 0.0])).to(measures_B3)
        phi_B = bonus(measures_B3, usual_3).to(inputs.rewards_PN)
        mean_3 = measures_B3.mean(dim=0)
        kept_3 = (1 - self.momentum) * usual_3 + self.momentum * mean_3
        inputs.memory["usual"] = kept_3.tolist()
        advantages_B = super().advantages(inputs)
        return advantages_B + torch.minimum(phi_B.clamp(min=0), advantages_B.abs() / self.kappa)

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: hidden states that no process has whole."""
        refusals = super().refusals(beside)
        if (sharding := sharding_of(self.accelerate)) is not None:
            refusals.append(
                "rl.algo 'effective-rank' reads hidden states in one piece, and rl.accelerate "
                f"'{self.accelerate}' ({sharding.kind}) spreads the policy (use --accelerate ddp)"
            )
        return refusals


def effective_rank(hidden_TD: Tensor) -> Tensor:
    """exp of the entropy of the singular values' shares, columns centred; 1 where rows agree."""
    import torch

    centred_TD = (hidden_TD - hidden_TD.mean(dim=0)).double()
    narrow = centred_TD if len(centred_TD) >= centred_TD.shape[1] else centred_TD.T
    values = torch.linalg.eigvalsh(narrow.T @ narrow).clamp(min=0).sqrt()
    if values.sum() == 0:
        return torch.ones((), dtype=torch.float64, device=values.device)
    shares = values / values.sum()
    rank: Tensor = torch.special.entr(shares).sum().exp()
    return rank


def rank_and_changes(rank: Tensor, ranks_J: Tensor) -> Tensor:
    """(ER, ERV, ERA): of the whole, its change along the prefixes, and the change of that.

    v_j is m_j minus the mean of the earlier prefixes' m; ERV the mean of v, ERA that of its
    differences; 0 where there are too few.
    """
    import torch

    places_J = torch.arange(1, max(1, len(ranks_J))).to(ranks_J)
    v_J = ranks_J[1:] - ranks_J.cumsum(0)[:-1] / places_J
    zero = torch.zeros_like(rank)
    change = v_J.mean() if len(v_J) else zero
    return torch.stack([rank, change, v_J.diff().mean() if len(v_J) > 1 else zero])


def measures(hidden_TD: Tensor, stride: int) -> Tensor:
    """`rank_and_changes` of a completion, by the prefixes of `stride`, 2 `stride`, ... tokens."""
    import torch

    last_TD = hidden_TD[-LAST_TOKENS:]
    ends = range(stride, len(last_TD), stride)
    ranks = [effective_rank(last_TD[:end]) for end in ends]
    rank = effective_rank(last_TD)
    return rank_and_changes(rank, torch.stack(ranks) if ranks else rank.new_empty(0))


def bonus(measures_B3: Tensor, usual_3: Tensor) -> Tensor:
    """Phi of each completion, from its measures' distances from the `usual` ones.

    d = (x - mu) / |mu| within +-5; g = sigmoid(2 d(ERA)); Phi = g tanh d(ER) + (1-g) tanh d(ERV).
    """
    apart_B3 = (measures_B3 - usual_3) / usual_3.abs()
    rank_B, change_B, growth_B = apart_B3.nan_to_num(0.0).clamp(-BOUND, BOUND).unbind(dim=1)
    gate_B = (2 * growth_B).sigmoid()
    return gate_B * rank_B.tanh() + (1 - gate_B) * change_B.tanh()
