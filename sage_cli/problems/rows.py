"""Where a row of a data set has its question, its gold and its worked solution."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from math import isfinite
from textwrap import shorten
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.row_files import Row, as_text
from sage_cli.settings.inputs import FieldsSection
from sage_cli.solution_text import any_of, last_boxed

HELD_OUT = 10
"""A file's part `:dev` has about one in so many of its questions."""


def is_of_part(question: str, part: str) -> bool:
    """Return True if a file's part has the question, whatever row it is in."""
    held_out = int(problem_id("", question, ""), 16) % HELD_OUT == 0
    return not part or held_out == (part == "dev")


_UNNAMED = FieldsSection()
_GOLDS = ("reward_model.ground_truth", "ground_truth", "answer", "solution", "gold")
"""Places of the right answer beside `prompt` or `messages`, the first that a row has filled. TRL's
`solution` is a worked one where there is an `answer` too."""
_QUESTIONS = ("question", "problem", "prompt", "messages", "conversations")
"""Usual columns of the question, for the advice where none is named."""
_TURNS_AS_TEXT = re.compile(
    r"""\[\s*\{\s*['"](?:(?:role|content)['"]\s*:|from['"]\s*:\s*['"](?:human|gpt|system)['"])"""
)
_TURN_FORMS = {"role": "content", "from": "value"}
"""The keys of a chat turn's role and its text; ShareGPT's are from and value."""

log = logging.getLogger(__name__)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path`: a column, or a dotted path as `prompt.-1.content`.

    A column whose own name has dots comes first. Of a list with one element, which is how some
    files hold a text, the element is returned, and of a turn's content in parts of type text their
    text. Raises KeyError where there is nothing.
    """
    inside = _inside(values, path)
    if parts := _parts(inside):
        return "".join(parts)
    return inside[0] if isinstance(inside, list) and len(inside) == 1 else inside


def _inside(values: Mapping[str, Any], path: str) -> Any:
    inside: Any = values
    for step in (path,) if path in values else path.split("."):
        if isinstance(inside, Mapping) and step in inside:
            inside = inside[step]
        elif isinstance(inside, list) and _is_place(step, inside):
            inside = inside[int(step)]
        else:
            raise KeyError(path)
    return inside


def has(values: Mapping[str, Any], path: str) -> bool:
    """Return True if a row has a value at `path`."""
    try:
        _inside(values, path)
    except KeyError:
        return False
    return True


def _is_place(step: str, among: list[Any]) -> bool:
    whole = step.removeprefix("-")
    return whole.isdecimal() and -len(among) <= int(step) < len(among)


_SPEAKERS = {"human", "user", "gpt", "assistant", "system", "tool", "function", "observation"}


def _turns(values: Mapping[str, Any], column: str) -> tuple[list[str], str]:
    """Return the roles of the chat turns at `column`, if any, and the key of their texts."""
    turns = _inside(values, column) if has(values, column) else None
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        return [], ""
    for role, text in _TURN_FORMS.items():
        if all(role in turn for turn in turns):
            roles = [str(turn[role]) for turn in turns]
            if role == "role" or _SPEAKERS.issuperset(roles):  # `from` may say where a part is from
                return roles, text
    return [], ""


def _asked(row: Row, column: str) -> tuple[str, list[str]]:
    """Return where a row's question stands, and the roles of the turns that are left out.

    It is a column itself, or among chat turns the user's last one. Raises DataError where another
    turn is named, or none is the user's.
    """
    where, values = row
    above, (roles, text) = column, _turns(values, column)
    asking = range(-1, -len(roles) - 1, -1)
    if not roles:
        path, _, key = column.rpartition(".")
        above, _, place = path.rpartition(".")
        roles, text = _turns(values, above)
        if not roles or key != text:
            return column, []
        asking = range(int(place), int(place) + 1)
    index = next((index for index in asking if roles[index] in ("user", "human")), None)
    if index is None:
        raise DataError(
            f"{where}: {column} holds no turn of the user",
            f"mend or remove it; name the column {above} itself, and each row's question is the "
            "user's last turn",
        )
    left_out = [role for n, role in enumerate(roles) if n != index % len(roles)]
    return f"{above}.{index}.{text}", left_out


def _parts(content: Any) -> list[str]:
    """Return the texts of content in parts of type text; empty for any other content."""
    parts = content if isinstance(content, list) else [content]
    is_text = all(isinstance(part, Mapping) and part.get("type") == "text" for part in parts)
    texts = [part.get("text") for part in parts] if is_text else []
    return texts if all(isinstance(text, str) for text in texts) else []


def _text_at(row: Row, path: str) -> str:
    """Return a text, a number or a boolean as text; DataError for anything else."""
    value = value_at(row[1], path)
    try:
        return as_text(value)
    except TypeError:
        inner = next(iter(value), "0") if isinstance(value, Mapping) else "0"
        raise DataError(
            f"{row[0]}: {path} holds the {type(value).__name__} {shorten(str(value), 80)}, not a "
            "text, a number or a boolean",
            f"name what is inside, as {path}.{inner}, by evaluation.fields (for training "
            "data.rl.fields, data.sft.fields); fields.any_of=true takes all golds of a list",
        ) from None


GoldRule = Callable[[str], str | None]


def whole(text: str) -> str | None:
    """Return the whole column as the gold; None if it is empty."""
    return text or None


def integer(text: str) -> str | None:
    """Return an integer without the leading zeros that AIME prints (033)."""
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else text or None


def in_last_box(text: str) -> str | None:
    r"""Return the contents of the last \boxed{...}; None without one or if it is empty."""
    return (last_boxed(text) or "").strip() or None


def after_hashes(text: str) -> str | None:
    """Return the text after the last ####, thousands separators removed (GSM8K)."""
    _, marker, answer = text.rpartition("####")
    return answer.strip().replace(",", "") or None if marker else None


def before_unit(text: str) -> str | None:
    """Return the text before the unit in parentheses: `9 (apples)` -> `9` (ASDiv)."""
    return re.sub(r"\s*\([^()]*\)\s*$", "", text) or None


def is_number(text: str) -> bool:
    """Return True if `text` is a finite decimal number, as 12, -0.5 or 1e5."""
    try:
        return isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


Columns = tuple[str, ...]


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    `files` are its local copies below the data folder, all of them needed. `question` and `gold`
    list alternatives, the first whose columns are there counts, because mirrors name columns
    differently; several question columns are joined by a space. `count` is the number of
    problems that a complete copy has; None where copies differ. `revision` is a commit of the
    Hub data set, which `data.revisions` overrides; None takes the newest, and the commit that was
    read is recorded.
    """

    name: str
    title: str
    hub: str
    splits: tuple[str, ...]
    files: tuple[str, ...]
    question: tuple[Columns, ...]
    gold: tuple[tuple[str, GoldRule], ...]
    config: str | None = None
    revision: str | None = None
    working: str | None = None
    where: tuple[str, Any] | None = None
    count: int | None = None
    judge: str = "math"
    tolerance: float | None = None
    training: bool = False
    rows: tuple[int, int] | None = None
    """The first and the last row that belong to it, counted from 1; None for all."""
    part_of: str | None = None
    """Problems carry this data set's name in their ids, so that both share their samples."""

    def pinned(self, revisions: Mapping[str, str]) -> DataSet:
        """Return it at the revision that its own name, or that of the whole, has in `revisions`."""
        whole = revisions.get(self.part_of or self.name, self.revision)
        return replace(self, revision=revisions.get(self.name, whole))

    def at(self, split: str) -> DataSet:
        """Return the same columns of another split, without a local copy or a count."""
        return replace(self, splits=(split,), files=(), count=None)


@dataclass(frozen=True)
class Group:
    """Several data sets reported as one benchmark."""

    name: str
    title: str
    members: tuple[str, ...]
    count: int | None = None
    training: bool = field(default=False, init=False)


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
                asked = [_asked(row, column) for column in layout._question_columns(row)]
                paths = [f"{p}.*.text" if _parts(_inside(row[1], p)) else p for p, _ in asked]
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
        texts = [_text_at(row, _asked(row, column)[0]) for column in columns]
        question = " ".join(texts).strip()
        if not question:
            raise DataError(f"{where} has no question ({_listed(columns)})", "mend or remove it")
        if _TURNS_AS_TEXT.match(question):
            raise DataError(
                f"{where}: {_listed(columns)} holds chat turns written as a text",
                "keep them as a list, in JSONL or Parquet",
            )
        column, gold = self._gold(row)
        used = {top for path in (*columns, column, self.working or "") for top in _tops(path)}
        meta = {key: value for key, value in values.items() if key not in used}
        id_ = problem_id(self.source, question, gold)
        working = self._working_of(row)
        return Problem(id_, self.source, question, gold, {**meta, "origin": origin}, working)

    def _working_of(self, row: Row) -> str | None:
        there = self.working is not None and has(row[1], self.working)
        return _text_at(row, self.working) or None if there and self.working else None

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
            listed, paths = _inside(values, column), [column]
            if self.any_of and isinstance(listed, list):
                paths = [f"{column}.{number}" for number in range(len(listed))]
            golds = [gold for path in paths if (gold := rule(_text_at(row, path))) is not None]
            if golds and len(golds) == len(paths):
                return column, any_of(golds)
        raise DataError(
            f"{where} has no gold answer ({_listed([column for column, _ in present])})",
            "mend or remove it: a problem without a gold can't be graded",
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
        _turns(values, "prompt")[0] or isinstance(values.get("prompt"), str) for values in rows
    )
    messages = any(_turns(values, "messages")[0] for values in rows)
    gold = next((name for name in _GOLDS if any(_is_filled(values, name) for values in rows)), None)
    if not (prompt or messages) or gold is None:
        return layout, None
    program = "verl" if "." in gold else "TRL" if prompt else "open-instruct"
    question = (*[("prompt",)] * prompt, *[("messages",)] * messages)
    return replace(layout, question=question, gold=((gold, whole),)), program


def _is_filled(values: Mapping[str, Any], path: str) -> bool:
    value = value_at(values, path) if has(values, path) else None
    return value not in (None, "", []) and value == value  # NaN differs from itself


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
        f"its columns are {', '.join(values)}; name those of a file, as "
        f"--set evaluation.fields.question={question} --set evaluation.fields.gold={gold} (for "
        "training data.rl.fields, data.sft.fields; `sage data show` has --question-field and "
        "--gold-field); a dotted path reaches inside, as prompt.-1.content",
    )


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return f"column{'s' * (len(columns) > 1)} {', '.join(columns)}"
