"""`sweep`: a search over settings."""

from __future__ import annotations

from pydantic import Field

from sage_cli.config.base import COSMETIC, Section


class SweepSection(Section):
    """A search over the guide's settings; every trial is a run of its own."""

    space: str = "tau,rho"
    benchmark: str = "dapo-math-dev"
    """Development problems to choose settings on; never the ones that are reported."""
    steps: int | None = Field(None, ge=1)
    """RL steps of a trial; null takes `rl.steps`."""
    samples: int = Field(256, ge=1)
    k: tuple[int, int] = (1, 256)
    """The two objectives: pass@k[0] and pass@k[1] on the development problems."""
    retries: int = Field(1, ge=0, json_schema_extra=COSMETIC)
