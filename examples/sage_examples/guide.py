"""A guide: more anchor on a completion's first tokens, where it chooses its way."""

from dataclasses import dataclass

from torch import Tensor

from sage_cli.guides import Guide, Signals


@dataclass(frozen=True)
class Opening(Guide):
    """q = 1 + strength for the first `tokens` tokens of a completion, 1 after them."""

    tokens: int = 4
    strength: float = 0.2
    q_min: float = 0.6
    q_max: float = 1.4

    def q(self, signals: Signals, step: int) -> Tensor:
        """Unclamped factors, one for each token (B, T)."""
        place_BT = signals.mask_BT.cumsum(dim=1)  # 1 for the first token
        return 1 + self.strength * (place_BT <= self.tokens)
