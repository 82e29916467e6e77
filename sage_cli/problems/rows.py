"""Rows of JSONL, CSV and Parquet files; a broken line is named by its number."""

from __future__ import annotations

import csv
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from sage_cli.errors import DataError
from sage_cli.file_hash import file_hash
from sage_cli.json_value import json_value
from sage_cli.latex_boxed import last_boxed
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.data import FieldsSection

DELIMITERS = (",", ";", "\t")

Row = tuple[str, dict[str, Any]]
"""Where a row stands (`FILE, line 7`) and what it holds."""


def read_file(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSONL, CSV or Parquet file.

    Raises DataError when the file isn't there, is of another kind, or has a row that isn't one.
    """
    _require(path)
    if path.suffix not in _READERS:
        raise DataError(
            f"{path} is neither JSONL, CSV nor Parquet",
            f"name a file that ends in {', '.join(SUFFIXES)}",
        )
    return _READERS[path.suffix](path)


HELD_OUT = 10
"""A file's part `:dev` has about one in so many of its questions."""


def file_and_part(name: str) -> tuple[str, str]:
    """Return `train.jsonl` and `dev` of `train.jsonl:dev`; a whole file has the part ''."""
    file, _, part = name.rpartition(":")
    return (file, part) if part in ("dev", "train") and file else (name, "")


def is_of_part(question: str, part: str) -> bool:
    """Return True if a file's part has the question, whatever row it is in."""
    held_out = int(problem_id("", question, ""), 16) % HELD_OUT == 0
    return not part or held_out == (part == "dev")


def content(path: Path) -> str:
    """Return the SHA-256 of a file's content. Raises DataError when it isn't there."""
    _require(path)
    return file_hash(path)


def _require(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")


def _jsonl(path: Path) -> Iterator[Row]:
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path}, line {number}", _json_object(line, path, number)


def _json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json_value(line)
    except ValueError as error:
        raise DataError(
            f"{path}, line {number}, isn't JSON: {error}",
            "mend or remove the line; each line is one JSON object",
        ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{path}, line {number}, is a JSON {type(row).__name__}, not an object",
            'each line is one JSON object, as {"question": ..., "gold": ...}',
        )
    return row


def _csv(path: Path) -> Iterator[Row]:
    """Rows by the columns that the first line names, every value a text."""
    with _text(path, newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=_delimiter(file))
        number = 1
        try:
            columns = next(reader, [])
            if len(set(columns)) < len(columns):
                raise DataError(f"{path} names a column twice: {', '.join(columns)}", "rename one")
            number = reader.line_num + 1
            for values in reader:
                if values:
                    yield f"{path}, line {number}", _named(columns, values, path, number)
                number = reader.line_num + 1  # a quoted value may hold line breaks
        except csv.Error as error:
            raise DataError(
                f"{path}, line {number}, isn't CSV: {error}", "mend or remove the line"
            ) from error


def _delimiter(file: TextIO) -> str:
    """Return the delimiter of the first line: spreadsheets also write ; and tabs."""
    first = file.readline()
    file.seek(0)
    return max(DELIMITERS, key=first.count)


def _named(columns: list[str], values: list[str], path: Path, number: int) -> dict[str, str]:
    if len(values) != len(columns):
        raise DataError(
            f"{path}, line {number}, has {len(values)} values, and the first line names "
            f"{len(columns)} columns",
            "mend the line: a value with a delimiter, quote or line break in it stands in quotes",
        )
    return dict(zip(columns, values, strict=True))


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except pa.ArrowException as error:
        raise DataError(f"{path} isn't a Parquet file: {error}", "write the file again") from error


@contextmanager
def _text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """A file of UTF-8 text, with or without the mark that spreadsheets put first."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path} isn't UTF-8 text: {error}", "convert the file") from error


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
SUFFIXES = tuple(_READERS)

_UNNAMED = FieldsSection()
_GOLDS = ("ground_truth", "solution", "answer", "gold")
"""Columns of the right answer beside `prompt` or `messages`, the first that is there."""

log = logging.getLogger(__name__)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path`: a column, or a dotted path as `prompt.-1.content`.

    A column whose own name has dots comes first. Of a list with one element, which is how some
    files hold a text, the element is returned. Raises KeyError where there is nothing.
    """
    inside: Any = values
    for step in (path,) if path in values else path.split("."):
        if isinstance(inside, Mapping) and step in inside:
            inside = inside[step]
        elif isinstance(inside, list) and _is_place(step, inside):
            inside = inside[int(step)]
        else:
            raise KeyError(path)
    return inside[0] if isinstance(inside, list) and len(inside) == 1 else inside


def has(values: Mapping[str, Any], path: str) -> bool:
    """Return True if a row has a value at `path`."""
    try:
        value_at(values, path)
    except KeyError:
        return False
    return True


def _is_place(step: str, among: list[Any]) -> bool:
    whole = step.removeprefix("-")
    return whole.isdecimal() and -len(among) <= int(step) < len(among)


def fields_of(path: Path, fields: FieldsSection) -> FieldsSection:
    """Return the columns of a file: those that are `named`, else those of a known program's form.

    What was detected is said once.
    """
    if (fields.question, fields.gold) != (_UNNAMED.question, _UNNAMED.gold):
        return fields
    row = next((values for _, values in islice(read_file(path), 1)), {})
    form = None if has(row, "question") and has(row, "gold") else _form(row)
    if form is None:
        return fields
    program, question, gold = form
    _say(path, program, question, gold)
    return fields.model_copy(update={"question": question, "gold": gold})


def _form(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the program whose form a row has, and its columns of question and gold."""
    question = _asked(row, "prompt") or _asked(row, "messages")
    if question is None:
        return None
    if question.startswith("prompt") and has(row, "reward_model.ground_truth"):
        return "verl", question, "reward_model.ground_truth"
    gold = next((name for name in _GOLDS if row.get(name) not in (None, "", [])), None)
    if gold is None:
        return None
    return "open-instruct" if question.startswith("messages") else "TRL", question, gold


def _asked(row: Mapping[str, Any], column: str) -> str | None:
    """Return the path of the question in a column of text or of turns: the last turn of the user.

    None where the column is neither.
    """
    turns = row.get(column)
    if isinstance(turns, str) and column == "prompt":
        return column
    if not isinstance(turns, list):
        return None
    for back in range(1, len(turns) + 1):
        turn = turns[-back]
        if isinstance(turn, Mapping) and turn.get("role") == "user" and "content" in turn:
            return f"{column}.-{back}.content"
    return None


@cache
def _say(path: Path, program: str, question: str, gold: str) -> None:
    log.warning(
        "%s has the columns of %s: the question is %s, the gold %s", path, program, question, gold
    )


GoldRule = Callable[[str], str | None]


def as_text(value: Any) -> str:
    """Return a column's value as text; AMC23 stores floats, and 27.0 reads as 27."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()


def whole(text: str) -> str | None:
    """Return the whole column as the gold; None if it is empty."""
    return text or None


def integer(text: str) -> str | None:
    """Return an integer without the leading zeros that AIME prints (033)."""
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else text or None


def in_last_box(text: str) -> str | None:
    r"""Return the contents of the last closed \boxed{...}; None without one or if it is empty."""
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
        return math.isfinite(float(text)) and "_" not in text
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
    """The columns of a source; of alternatives the first that is there counts."""

    source: str
    question: tuple[tuple[str, ...], ...]
    gold: tuple[tuple[str, GoldRule], ...]
    working: str | None = None

    @classmethod
    def of_data_set(cls, data_set: DataSet) -> Layout:
        """Return the layout that the registry declares."""
        source = data_set.part_of or data_set.name
        return cls(source, data_set.question, data_set.gold, data_set.working)

    @classmethod
    def of_file(cls, name: str, fields: FieldsSection) -> Layout:
        """Return the layout of a file whose columns the user named."""
        return cls(name, ((fields.question,),), ((fields.gold, whole),), fields.working)

    def columns(self) -> list[Any]:
        """Return everything above as plain JSON."""
        gold = [[column, getattr(rule, "__name__", "")] for column, rule in self.gold]
        return [self.source, list(map(list, self.question)), gold, self.working]

    def problem(self, row: Row, origin: str) -> Problem:
        """Return the problem in `row`; DataError names the row that lacks a question or a gold."""
        where, values = row
        columns = self._question_columns(row)
        question = " ".join(as_text(value_at(values, column)) for column in columns).strip()
        if not question:
            raise DataError(f"{where} has no question ({_listed(columns)})", "mend or remove it")
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
        """Return the worked solution in `row`; DataError names the row that lacks it."""
        where, values = row
        if self.working is None:
            raise DataError(
                f"{self.source} has no worked solutions to learn from",
                "name a source that has (openmathreasoning-mini, asdiv, svamp, arithmetic-train), "
                "or the file's column with data.sft.fields.working",
            )
        if not has(values, self.working):
            raise _no_column(where, self.working, values)
        working = as_text(value_at(values, self.working))
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
            gold = rule(as_text(value_at(values, column)))
            if gold is not None:
                return column, gold
        raise DataError(
            f"{where} has no gold answer ({_listed([column for column, _ in present])})",
            "mend or remove it: a problem without a gold can't be graded",
        )


def _tops(path: str) -> tuple[str, str]:
    """Return the names of the column that a path may begin with."""
    return path, path.partition(".")[0]


def _no_column(where: str, column: str, values: Mapping[str, Any]) -> DataError:
    near = get_close_matches(column, values, n=1)
    question, gold = [*values, "COLUMN", "COLUMN"][:2]
    return DataError(
        f"{where} has no column '{column}'" + (f"; did you mean '{near[0]}'?" if near else ""),
        f"its columns are {', '.join(values)}; name those of a file, as "
        f"--set evaluation.fields.question={question} --set evaluation.fields.gold={gold} (for "
        "training data.rl.fields, data.sft.fields; `sage data show` has --question-field and "
        "--gold-field); a dotted path reaches inside, as prompt.-1.content",
    )


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return f"column{'s' * (len(columns) > 1)} {', '.join(columns)}"
