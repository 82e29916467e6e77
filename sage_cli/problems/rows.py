"""A published row -> question, gold and working-out, by the columns that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.columns import has, value_at
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.files import Row
from sage_cli.problems.gold import GoldRule, as_text, whole
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.data import FieldsSection


@dataclass(frozen=True)
class Layout:
    """The columns of a source; of alternatives the first that is there counts."""

    source: str
    question: tuple[tuple[str, ...], ...]
    gold: tuple[tuple[str, GoldRule], ...]
    working: str | None = None

    @classmethod
    def of_data_set(cls, data_set: DataSet) -> Layout:
        """The layout that the registry declares."""
        source = data_set.part_of or data_set.name
        return cls(source, data_set.question, data_set.gold, data_set.working)

    @classmethod
    def of_file(cls, name: str, fields: FieldsSection) -> Layout:
        """The layout of a file whose columns the user named."""
        return cls(name, ((fields.question,),), ((fields.gold, whole),), fields.working)

    def columns(self) -> list[Any]:
        """Everything above as plain JSON."""
        gold = [[column, getattr(rule, "__name__", "")] for column, rule in self.gold]
        return [self.source, list(map(list, self.question)), gold, self.working]

    def problem(self, row: Row, origin: str) -> Problem:
        """The problem in `row`; DataError names the row that lacks a question or a gold."""
        place, values = row
        columns = self._question_columns(row)
        question = " ".join(as_text(value_at(values, column)) for column in columns).strip()
        if not question:
            raise DataError(f"{place} has no question ({_listed(columns)})", "mend or remove it")
        column, gold = self._gold(row)
        used = {top for path in (*columns, column, self.working or "") for top in _tops(path)}
        meta = {key: value for key, value in values.items() if key not in used}
        id_ = problem_id(self.source, question, gold)
        working = self._working_of(values)
        return Problem(id_, self.source, question, gold, {**meta, "origin": origin}, working)

    def _working_of(self, values: Mapping[str, Any]) -> str | None:
        there = self.working is not None and has(values, self.working)
        return as_text(value_at(values, self.working)) or None if there and self.working else None

    def working_out(self, row: Row) -> str:
        """The worked solution in `row`; DataError names the row that lacks it."""
        place, values = row
        if self.working is None:
            raise DataError(
                f"{self.source} has no worked solutions to learn from",
                "name a source that has (openmathreasoning-mini, asdiv, svamp, arithmetic-train), "
                "or the file's column with data.sft.fields.working",
            )
        if not has(values, self.working):
            raise _no_column(place, self.working, values)
        working = as_text(value_at(values, self.working))
        if not working:
            raise DataError(f"{place} has no worked solution (column {self.working})")
        return working

    def _question_columns(self, row: Row) -> tuple[str, ...]:
        place, values = row
        for columns in self.question:
            if all(has(values, column) for column in columns):
                return columns
        missing = next(column for column in self.question[0] if not has(values, column))
        raise _no_column(place, missing, values)

    def _gold(self, row: Row) -> tuple[str, str]:
        place, values = row
        present = [(column, rule) for column, rule in self.gold if has(values, column)]
        if not present:
            raise _no_column(place, self.gold[0][0], values)
        for column, rule in present:
            gold = rule(as_text(value_at(values, column)))
            if gold is not None:
                return column, gold
        raise DataError(
            f"{place} has no gold answer ({_listed([column for column, _ in present])})",
            "mend or remove it: a problem without a gold can't be graded",
        )


def _tops(path: str) -> tuple[str, str]:
    """Return the names of the column that a path may begin with."""
    return path, path.partition(".")[0]


def _no_column(place: str, column: str, values: Mapping[str, Any]) -> DataError:
    near = get_close_matches(column, values, n=1)
    question, gold = [*values, "COLUMN", "COLUMN"][:2]
    return DataError(
        f"{place} has no column '{column}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"its columns are {', '.join(values)}; name those of a file, as "
        f"--set evaluation.fields.question={question} --set evaluation.fields.gold={gold} (for "
        "training data.rl.fields, data.sft.fields; `sage data show` has --question-field and "
        "--gold-field); a dotted path reaches inside, as prompt.-1.content",
    )


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return f"column{'s' * (len(columns) > 1)} {', '.join(columns)}"
