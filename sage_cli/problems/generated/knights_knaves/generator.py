"""Knights and Knaves as a generator."""

from __future__ import annotations

from typing import Self

from sage_cli.config.data import DataSection, KnightsKnavesSection
from sage_cli.problems.generated.generator import Generator, Split
from sage_cli.problems.generated.knights_knaves.generate import BENCHMARK, knights_knaves_problems
from sage_cli.problems.problem import Problem


class KnightsKnaves(Generator):
    """Puzzles worded like the published set `kk`, as many as wanted, perturbed when asked for."""

    name = BENCHMARK
    title = "Knights and Knaves"
    settings = KnightsKnavesSection
    judge = "roles"
    version = 2
    section: KnightsKnavesSection

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.knights_knaves` sets it."""
        return cls(data.knights_knaves)

    def problems(self, split: Split) -> list[Problem]:  # noqa: ARG002
        """The only split."""
        return knights_knaves_problems(self.section)
