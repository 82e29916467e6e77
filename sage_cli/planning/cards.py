"""Cards that a plan can be made for: what their makers' data sheets say."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from sage_cli.errors import ConfigurationError

GIB = 2**30
USABLE = 0.95
"""Share of a card's memory that tensors can have: the CUDA context and gaps have the rest."""


@dataclass(frozen=True)
class Card:
    """A GPU by name: gigabytes of 10^9 bytes, and whether it multiplies in bfloat16."""

    name: str
    memory_gb: int
    bfloat16: bool = True

    @property
    def bytes(self) -> int:
        """The bytes that tensors may take."""
        return int(USABLE * self.memory_gb * 10**9)


CARDS = {
    card.name: card
    for card in (
        Card("t4-16g", 16, bfloat16=False),
        Card("v100-16g", 16, bfloat16=False),
        Card("v100-32g", 32, bfloat16=False),
        Card("l4-24g", 24),
        Card("a10-24g", 24),
        Card("rtx3090-24g", 24),
        Card("rtx4090-24g", 24),
        Card("rtx5090-32g", 32),
        Card("a40-48g", 48),
        Card("a6000-48g", 48),
        Card("l40s-48g", 48),
        Card("a100-40g", 40),
        Card("a100-80g", 80),
        Card("h100-80g", 80),
        Card("h200-141g", 141),
        Card("b200-180g", 180),
    )
}
"""NVIDIA's data sheets, each named by generation and memory. They round: `nvidia-smi` may show up
to 7 % more, which a plan leaves free."""


def card(name: str) -> Card:
    """The card called `name`; ConfigurationError with the nearest names for another."""
    found = CARDS.get(name.lower())
    if found is None:
        close = get_close_matches(name.lower(), CARDS, n=1, cutoff=0.4)
        raise ConfigurationError(
            f"no card '{name}' is known" + (f" (did you mean {close[0]}?)" if close else ""),
            f"known are {', '.join(CARDS)}; name one of the same memory",
        )
    return found
