"""PSR: learn from right completions alone."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.advantages.signed import SignedAdvantages


class Psr(SignedAdvantages):
    """Positive sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["psr"] = "psr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): right completions alone, without a baseline"
    differs = "wrong rows count in the mean over tokens, where their code leaves them out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 1 and 0."""
        return 1.0, 0.0
