"""Two-digit products as a generator."""

from __future__ import annotations

from typing import Self

from sage_cli.config.data import ArithmeticSection, DataSection
from sage_cli.problems.generated.arithmetic.problems import BENCHMARK, ArithmeticProblems
from sage_cli.problems.generated.generator import Generator, Split
from sage_cli.problems.problem import Demonstration, Problem


class Arithmetic(Generator):
    """The problems of the `tiny` preset; its demonstrations come in phases."""

    name = BENCHMARK
    title = "Two-digit products"
    splits = ("test", "development", "training")
    settings = ArithmeticSection
    modes = {strategy: f"{strategy}:" for strategy in "SRD"}  # noqa: RUF012
    section: ArithmeticSection

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.arithmetic` sets it."""
        return cls(data.arithmetic)

    def problems(self, split: Split) -> list[Problem]:
        """Products of which no two splits share one."""
        made = ArithmeticProblems(self.section)
        return {"test": made.test, "development": made.development, "training": made.training}[
            split
        ]()

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:  # noqa: ARG002
        """Phase after phase."""
        return ArithmeticProblems(self.section).demonstrations(count)
