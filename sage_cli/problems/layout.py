"""Which columns of a source hold its questions, golds and worked solutions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.golds import GoldRule, whole
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.row_files import Row
from sage_cli.problems.values import (
    TURNS_AS_TEXT,
    chat_turns,
    find_question,
    has,
    is_filled,
    raw_value_at,
    text_at,
    text_parts,
)
from sage_cli.settings.inputs import FieldsSection
from sage_cli.solution_text import any_of

log = logging.getLogger(__name__)

_UNNAMED = FieldsSection()
_GOLDS = ("reward_model.ground_truth", "ground_truth", "answer", "solution", "gold")
"""Places of the right answer beside `prompt` or `messages`, the first that a row has filled. TRL's
`solution` is a worked one where there is an `answer` too."""
_QUESTIONS = ("question", "problem", "prompt", "messages", "conversations")
"""Usual columns of the question, for the advice where none is named."""


@dataclass(frozen=True)
class Layout:
    """The columns of a source; of alternatives the first that is there counts.

    `any_of`: a gold may be a list, any of which is right. `places` are where rows of a file have
    their questions, if not in the columns as they are.
    """

    source: str
    question: tuple[tuple[str, ...], ...]
    gold: tuple[tuple[str, GoldRule], ...]
    working: str | None = None
    any_of: bool = False
    places: tuple[tuple[str, ...], ...] = ()

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

    def found_in(self, rows: Sequence[Row], name: str) -> Layout:
        """Return the layout with the columns that the rows have, if nobody named others.

        Says what was detected, and which chat turns are no part of a question.
        """
        layout, program = _detected(self, [values for _, values in rows])
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
        if program:
            questions = " or ".join(path for paths in places for path in paths)
            _say(
                f"{name} has the columns of {program}: the question is {questions}, the gold "
                f"{layout.gold[0][0]}"
            )
        if left_out:
            turns = ", ".join(f"{role} in {n} of {len(rows)} rows" for role, n in left_out.items())
            _say(f"{name}: chat turns that are left out of the question: {turns}")
        return layout

    def columns(self) -> list[Any]:
        """Return what identifies the columns as plain JSON."""
        gold = [[column, getattr(rule, "__name__", "")] for column, rule in self.gold]
        question = list(map(list, self.places or self.question))
        return [self.source, question, gold, self.working, *["any_of"] * self.any_of]

    def problem(self, row: Row, origin: str) -> Problem:
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
        column, gold = self._gold(row)
        used = {top for path in (*columns, column, self.working or "") for top in _tops(path)}
        meta = {key: value for key, value in values.items() if key not in used}
        id_ = problem_id(self.source, question, gold)
        working = self._working_of(row)
        return Problem(id_, self.source, question, gold, {**meta, "origin": origin}, working)

    def _working_of(self, row: Row) -> str | None:
        there = self.working is not None and has(row[1], self.working)
        return text_at(row, self.working) or None if there and self.working else None

    def working_out(self, row: Row) -> str | None:
        """Return the worked solution in `row`, None where no column of them is named.

        Raises DataError that names the row which lacks it.
        """
        where, values = row
        if self.working is None:
            return None
        if not has(values, self.working):
            raise _no_column(where, self.working, values)
        working = self._working_of(row)
        if not working:
            raise DataError(f"{where} has no worked solution (column {self.working})")
        return working

    def _question_columns(self, row: Row) -> tuple[str, ...]:
        where, values = row
        for columns in self.question:
            if all(has(values, column) for column in columns):
                return columns
        missing = next(column for column in self.question[0] if not has(values, column))
        raise _no_column(where, missing, values)

    def _gold(self, row: Row) -> tuple[str, str]:
        where, values = row
        present = [(column, rule) for column, rule in self.gold if has(values, column)]
        if not present:
            raise _no_column(where, self.gold[0][0], values)
        for column, rule in present:
            listed, paths = raw_value_at(values, column), [column]
            if self.any_of and isinstance(listed, list):
                paths = [f"{column}.{number}" for number in range(len(listed))]
            golds = [gold for path in paths if (gold := rule(text_at(row, path))) is not None]
            if golds and len(golds) == len(paths):
                return column, any_of(golds)
        raise DataError(
            f"{where} has no reference answer ({_listed([column for column, _ in present])})",
            "fix or remove it: a problem without a reference answer cannot be graded",
        )


@cache
def _say(text: str) -> None:
    log.warning("%s", text)


def _detected(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> tuple[Layout, str | None]:
    """Return the layout of a known program's rows, and its name; else the layout as it is."""
    ours = (_UNNAMED.question, _UNNAMED.gold)
    named = (layout.question[0][0], layout.gold[0][0]) != ours
    if named or any(has(values, ours[0]) and has(values, ours[1]) for values in rows):
        return layout, None
    prompt = any(
        chat_turns(values, "prompt")[0] or isinstance(values.get("prompt"), str) for values in rows
    )
    messages = any(chat_turns(values, "messages")[0] for values in rows)
    gold = next((name for name in _GOLDS if any(is_filled(values, name) for values in rows)), None)
    if not (prompt or messages) or gold is None:
        return layout, None
    program = "verl" if "." in gold else "TRL" if prompt else "open-instruct"
    question = (*[("prompt",)] * prompt, *[("messages",)] * messages)
    return replace(layout, question=question, gold=((gold, whole),)), program


def _tops(path: str) -> tuple[str, str]:
    """Return the names of the column that a path may begin with."""
    return path, path.partition(".")[0]


def _no_column(where: str, column: str, values: Mapping[str, Any]) -> DataError:
    near = get_close_matches(column, values, n=1, cutoff=0.7)  # solution is near question by .63
    others = [name for name in values if name not in _GOLDS]
    question = next((name for name in (*_QUESTIONS, *others) if name in values), "COLUMN")
    others = [name for name in values if name != question]
    gold = next((name for name in (*_GOLDS, *others) if has(values, name)), "COLUMN")
    return DataError(
        f"{where} has no column '{column}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"its columns are {', '.join(values)}. For training, add --question-field {question} "
        f"--gold-field {gold}; for a benchmark, --set evaluation.fields.question={question} --set "
        f"evaluation.fields.gold={gold}. A dotted path such as prompt.-1.content reaches inside",
    )


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return f"column{'s' * (len(columns) > 1)} {', '.join(columns)}"
