"""Word problems as a generator: splits of published rows, and demonstrations made from them."""

from __future__ import annotations

from typing import Any, Self

from sage_cli.config.data import DataSection, WordProblemsSection
from sage_cli.problems.generated.generator import Generator, Split
from sage_cli.problems.generated.word_problems.demonstrations import word_problem_demonstrations
from sage_cli.problems.generated.word_problems.splits import BENCHMARK, SOURCES, Splits
from sage_cli.problems.problem import Demonstration, Problem
from sage_cli.problems.published import data_set
from sage_cli.problems.sources import source_identity


class WordProblems(Generator):
    """ASDiv and SVAMP, split so that nothing held out is seen in training."""

    name = BENCHMARK
    title = "ASDiv and SVAMP"
    splits = ("test", "development", "training")
    settings = WordProblemsSection
    sources = SOURCES
    section: WordProblemsSection

    def __init__(self, section: WordProblemsSection, data: DataSection) -> None:
        super().__init__(section)
        self.data = data

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.word_problems` sets it, on the rows that `data` says where to find."""
        return cls(data.word_problems, data)

    def problems(self, split: Split) -> list[Problem]:
        """Rows as they were published."""
        splits = Splits.of(self.data)
        rows = {
            "test": splits.held_out,
            "development": splits.development,
            "training": splits.training,
        }
        return [row.problem for row in rows[split]]

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:
        """Rows, rows with other numbers and facts, in batches of about one length."""
        return word_problem_demonstrations(self.data, count, batch_size)

    def identity(self) -> dict[str, Any]:
        """The settings, and the content of the published rows."""
        rows = [source_identity(data_set(name), self.data) for name in self.sources]
        return {**super().identity(), "rows": rows}
