"""GRPO with a bonus on the mean entropy of the tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.method import PlainAdvantages


class EntropyBonus(PlainAdvantages):
    """GRPO whose loss has the mean entropy, times a constant, taken from it."""

    algo: Literal["entropy-bonus"] = "entropy-bonus"
    entropy_coefficient: float = Field(0.01, ge=0)

    source = "GRPO with a bonus on the mean entropy of the tokens; 0.001 to 0.1 in PKPO's baselines"
    differs = "the coefficient, for which no single value is named"
