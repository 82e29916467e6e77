"""Decoding settings that `rollout` and `sampling` share."""

from __future__ import annotations

from pydantic import Field

from sage_cli.settings.base import Section


class DecodingSection(Section):
    """The distribution that tokens are sampled from, and how many at most."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy decoding."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Tokens of the smallest set with this probability; 1 is off."""
    top_k: int = Field(0, ge=0)
    """0 is off."""
    min_p: float = Field(0.01, ge=0, lt=1)
    """Tokens that have at least this share of the likeliest one's probability; 0 is off."""
    max_tokens: int = Field(2048, ge=1)
    """Tokens of a completion at most."""

    @property
    def truncates(self) -> bool:
        """Return True if min_p, top_p or top_k exclude tokens."""
        return self.min_p > 0 or self.top_p < 1 or self.top_k > 0
