"""The contract of a benchmark that another package registers, as a test class to inherit.

    class TestRiddles(BenchmarkContract):
        entry = RIDDLES

        def rows(self) -> list[dict[str, Any]]:
            return [{"riddle": "...", "answer": "..."}, ...]

needs pytest (or any runner that calls `test_*` methods) and nothing else; no network.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import is_file_name
from sage_cli.problems.rows import DataSet, Layout


class BenchmarkContract(ABC):
    """A name of its own, somewhere to read from, and columns that its rows have."""

    entry: ClassVar[DataSet]
    """The declaration under test."""

    @abstractmethod
    def rows(self) -> Sequence[dict[str, Any]]:
        """Return a few rows as they are published, each with another question or gold."""

    def problems(self) -> list[Problem]:
        """Return the problems of the rows."""
        layout = Layout.of_data_set(self.entry)
        return [layout.problem((f"row {i}", row), "here") for i, row in enumerate(self.rows(), 1)]

    def test_the_name_can_be_typed(self) -> None:
        """`--benchmark` separates names by commas and takes paths too."""
        name = self.entry.name
        assert name == name.strip() != ""
        assert "," not in name
        assert not is_file_name(name)
        assert self.entry.title.strip()

    def test_there_is_somewhere_to_read_from(self) -> None:
        """On the Hub, by its splits, or in local files."""
        assert (self.entry.hub and self.entry.splits) or self.entry.files
        assert self.entry.count is None or self.entry.count > 0

    def test_every_row_has_a_question_and_a_gold(self) -> None:
        """Reading refuses a row without, and names it."""
        for problem in self.problems():
            assert problem.question.strip()
            assert problem.gold.strip()

    def test_ids_are_unique_and_stable(self) -> None:
        """Samples and grades are stored by id."""
        ids = [problem.id for problem in self.problems()]
        assert len(set(ids)) == len(ids) > 0
        assert ids == [problem.id for problem in self.problems()]

    def test_meta_is_plain_json(self) -> None:
        """It is stored beside samples."""
        for problem in self.problems():
            json.dumps(dict(problem.meta), allow_nan=False)

    def test_rows_have_the_other_columns_that_are_named(self) -> None:
        """Of the filter and of the worked solution."""
        layout = Layout.of_data_set(self.entry)
        for number, row in enumerate(self.rows(), 1):
            assert self.entry.where is None or self.entry.where[0] in row
            assert self.entry.working is None or layout.working_out((f"row {number}", row))
