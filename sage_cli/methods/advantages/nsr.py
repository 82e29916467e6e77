"""NSR: learn from wrong completions alone."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.advantages.signed import SignedAdvantages


class Nsr(SignedAdvantages):
    """Negative sample reinforcement (Zhu et al. 2025)."""

    algo: Literal["nsr"] = "nsr"

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions alone; diverges when long"
    differs = "right rows count in the mean over tokens, where their code leaves them out"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return 0 and -1."""
        return 0.0, -1.0
