"""Which columns of a source hold its questions, golds and worked solutions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from sage_cli.errors import DataError
from sage_cli.problems.columns import GOLDS, QUESTIONS, Recognised, gold_rule, recognise
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.golds import GoldRule, is_worked, only_element, whole, worked_answer
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.row_files import FileRow
from sage_cli.problems.source_errors import AbsentColumnError
from sage_cli.problems.values import (
    TURNS_AS_TEXT,
    find_question,
    has,
    is_filled,
    raw_value_at,
    text_at,
    text_parts,
)
from sage_cli.settings.data import FieldsSection
from sage_cli.solution_text import any_of

log = logging.getLogger(__name__)

_UNNAMED = FieldsSection()


@dataclass(frozen=True)
class Layout:
    """The columns of a source; of alternatives the first that is there counts.

    `any_of`: a gold may be a list, any of which is correct. `places` are where rows of a file have
    their questions, if not in the columns as they are. `solution` is a column of worked solutions
    beside the golds, which should end with them.
    """

    source: str
    question: tuple[tuple[str, ...], ...]
    gold: tuple[tuple[str, GoldRule], ...]
    working: str | None = None
    any_of: bool = False
    places: tuple[tuple[str, ...], ...] = ()
    solution: str | None = None

    @classmethod
    def of_data_set(cls, data_set: DataSet, fields: FieldsSection | None = None) -> Layout:
        """Return the layout that the registry declares; without one that of the `fields`."""
        if not data_set.question:
            return cls.of_file(data_set.hub, fields or _UNNAMED)
        source = data_set.part_of or data_set.name
        return cls(source, data_set.question, data_set.gold, data_set.working)

    @classmethod
    def of_file(cls, name: str, fields: FieldsSection) -> Layout:
        """Return the layout of a file whose columns the user named."""
        gold = ((fields.gold, whole),)
        return cls(name, ((fields.question,),), gold, fields.working, fields.any_of)

    def found_in(self, rows: Sequence[FileRow], name: str) -> Layout:
        """Return the layout with the columns that the rows have, if nobody named others.

        Says what was recognised, which golds are read from worked solutions, and which chat turns
        are not part of a question. Raises DataError for questions that need another column.
        """
        layout, recognised = self._recognised([values for _, values in rows], name)
        places, left_out = {}, Counter[str]()
        for row in rows:
            with suppress(DataError):  # is for whoever reads the problems
                asked = [find_question(row, column) for column in layout._question_columns(row)]
                paths = [
                    f"{p}.*.text" if text_parts(raw_value_at(row[1], p)) else p for p, _ in asked
                ]
                places[tuple(paths)] = True
                left_out.update({role for _, roles in asked for role in roles})
        layout = replace(layout, places=tuple(places))
        if recognised is not None:
            questions = " or ".join(" and ".join(paths) for paths in places)
            columns = (
                f"has the columns of {recognised.program}"
                if recognised.program
                else "is recognised"
            )
            golds = " or ".join(_read_as(column, rule) for column, rule in layout.gold)
            _say(f"{name} {columns}: the question is {questions}, the gold {golds}")
        if left_out:
            turns = ", ".join(f"{role} in {n} of {len(rows)} rows" for role, n in left_out.items())
            _say(f"{name}: chat turns that are left out of the question: {turns}")
        return layout

    def _recognised(
        self, rows: Sequence[Mapping[str, Any]], name: str
    ) -> tuple[Layout, Recognised | None]:
        """Return the layout of the rows' usual columns, and what of it nobody named."""
        (question,), (gold, _) = self.question[0], self.gold[0]
        usual = (_UNNAMED.question, _UNNAMED.gold)
        ours = any(has(values, usual[0]) and has(values, usual[1]) for values in rows)
        named = [
            column if ours or column != common else None
            for column, common in zip((question, gold), usual, strict=True)
        ]
        recognised = None
        if None in named:
            try:
                recognised = recognise(rows, *named)
            except DataError as error:
                raise DataError(f"{name}: {error.cause}", error.next_step) from None
        if recognised is not None:
            layout = replace(
                self,
                question=recognised.question,
                gold=recognised.gold,
                solution=recognised.solution,
            )
            return layout, recognised
        rule = gold_rule(rows, gold)
        if rule is not whole:
            _say(f"{name}: the gold is {_read_as(gold, rule)}")
        return replace(self, gold=((gold, rule),)), None

    def columns(self) -> list[Any]:
        """Return what identifies the columns as plain JSON."""
        gold = [[column, getattr(rule, "__name__", "")] for column, rule in self.gold]
        question = list(map(list, self.places or self.question))
        return [self.source, question, gold, self.working, *["any_of"] * self.any_of]

    def problem(self, row: FileRow, origin: str) -> Problem:
        """Return the problem in `row`; DataError names the row that lacks a question or a gold."""
        where, values = row
        columns = self._question_columns(row)
        texts = [text_at(row, find_question(row, column)[0]) for column in columns]
        question = " ".join(texts).strip()
        if not question:
            raise DataError(f"{where} has no question ({_listed(columns)})", "fix or remove it")
        if TURNS_AS_TEXT.match(question):
            raise DataError(
                f"{where}: {_listed(columns)} contains chat turns that are written as text",
                "store them as a list, in JSONL or Parquet",
            )
        column, gold, text = self._gold(row)
        beside = (self.working or "", self.solution or "")
        used = {top for path in (*columns, column, *beside) for top in _tops(path)}
        return Problem(
            problem_id(self.source, question, gold),
            self.source,
            question,
            gold,
            {key: value for key, value in values.items() if key not in used} | {"origin": origin},
            self._working_of(row),
            {key: value for key, value in values.items() if key in used},
            None if gold == text else text,
            self._solved(row),
        )

    def _solved(self, row: FileRow) -> str | None:
        """Return what the worked solution beside a gold ends with; None where it marks nothing."""
        if self.solution is None or not is_filled(row[1], self.solution):
            return None
        text = text_at(row, self.solution)
        return worked_answer(text) if is_worked(text) else None

    def _working_of(self, row: FileRow) -> str | None:
        there = self.working is not None and has(row[1], self.working)
        return text_at(row, self.working) or None if there and self.working else None

    def working_out(self, row: FileRow) -> str | None:
        """Return the worked solution in `row`, None where no column of them is named.

        Raises DataError that names the row which lacks it.
        """
        where, values = row
        if self.working is None:
            return None
        if not has(values, self.working):
            raise _no_column(where, self.working, values, "working")
        working = self._working_of(row)
        if not working:
            raise DataError(f"{where} has no worked solution (column {self.working})")
        return working

    def _question_columns(self, row: FileRow) -> tuple[str, ...]:
        where, values = row
        for columns in self.question:
            if all(has(values, column) for column in columns):
                return columns
        missing = next(column for column in self.question[0] if not has(values, column))
        raise _no_column(where, missing, values, "question")

    def _gold(self, row: FileRow) -> tuple[str, str, str]:
        """Return the column of a row's gold, the gold, and the text that it was read from."""
        where, values = row
        present = [(column, rule) for column, rule in self.gold if has(values, column)]
        if not present:
            raise _no_column(where, self.gold[0][0], values, "gold")
        for column, rule in present:
            listed, paths = raw_value_at(values, column), [column]
            if self.any_of and isinstance(listed, list):
                paths = [f"{column}.{number}" for number in range(len(listed))]
            texts = [text_at(row, path) for path in paths]
            golds = [gold for text in texts if (gold := rule(text)) is not None]
            if golds and len(golds) == len(paths):
                return column, any_of(golds), any_of(texts)
        raise DataError(
            f"{where} has no reference answer ({_listed([column for column, _ in present])})",
            "fix or remove it: a problem without a reference answer cannot be graded",
        )


@cache
def _say(text: str) -> None:
    log.warning("%s", text)


def _read_as(column: str, rule: GoldRule) -> str:
    """Return in words where a gold stands: `answer`, or what of a worked solution it is."""
    if rule is worked_answer:
        return (
            f"the answer in the worked solutions of {column}: after the last ####, else in the "
            "last \\boxed{}"
        )
    return f"the single element of the list in {column}" if rule is only_element else column


def _tops(path: str) -> tuple[str, str]:
    """Return the names of the column that a path may begin with."""
    return path, path.partition(".")[0]


def _no_column(
    where: str,
    column: str,
    values: Mapping[str, Any],
    role: Literal["question", "gold", "working"],
) -> AbsentColumnError:
    near = get_close_matches(column, values, n=1, cutoff=0.7)  # solution is near question by .63
    others = [name for name in values if name not in GOLDS]
    question = next((name for name in (*QUESTIONS, *others) if name in values), "COLUMN")
    others = [name for name in values if name != question]
    gold = next((name for name in (*GOLDS, *others) if has(values, name)), "COLUMN")
    return AbsentColumnError(
        f"{where} has no column '{column}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        ", ".join(values),
        question,
        gold,
        role,
    )


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return f"column{'s' * (len(columns) > 1)} {', '.join(columns)}"
