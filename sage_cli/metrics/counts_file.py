"""Counts or samples of any source: rows of (problem, correct) or (problem, n, c) in a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.json_value import json_value
from sage_cli.metrics.counts import Counts

Row = Mapping[str, Any]
_CORRECT = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
EXPECTED = "a row is {problem, correct} for one sample, or {problem, n, c} for all samples of one"
SHOWN = 5


def is_counts_file(name: str) -> bool:
    """Return True if `name` is a file of counts, and neither a run nor a model."""
    return Path(name).suffix in (".json", ".jsonl", ".csv")


def read_counts(path: Path) -> Counts:
    """Counts from a file whose rows are samples or counts; its columns say which.

    `correct` is true/false or 1/0, or in JSON a list of them. JSON is a list of rows, or an
    object whose `problems` is one. Raises DataError naming the malformed rows by number.
    """
    readers = {".json": _json_rows, ".jsonl": _jsonl_rows, ".csv": _csv_rows}
    if path.suffix not in readers:
        raise DataError(f"{path}: not one of {', '.join(readers)}", EXPECTED)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    n: dict[str, int] = {}
    c: dict[str, int] = {}
    complaints = []
    summarised: set[str] = set()
    try:
        for place, row in readers[path.suffix](path):
            try:
                problem, samples, right, is_count = _read(row)
                if problem in summarised or (is_count and problem in n):
                    raise ValueError(f"problem '{problem}' was counted before")
            except ValueError as error:
                complaints.append(f"{place}: {error}")
                continue
            if is_count:
                summarised.add(problem)
            n[problem] = n.get(problem, 0) + samples
            c[problem] = c.get(problem, 0) + right
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text") from None
    if complaints:
        more = len(complaints) - SHOWN
        listed = complaints[:SHOWN] + ([f"and {more} more"] if more > 0 else [])
        raise DataError(f"{path}:\n" + "\n".join(listed), EXPECTED)
    if not n:
        raise DataError(f"{path} holds no rows", EXPECTED)
    return Counts(tuple(n), list(n.values()), list(c.values()))  # type: ignore[arg-type]


def _read(row: Any) -> tuple[str, int, int, bool]:
    """Problem, samples, right ones, and True if the row is the count of its problem."""
    if not isinstance(row, Mapping):
        raise ValueError(f"{row!r} is not an object")
    problem = row.get("problem")
    if not isinstance(problem, str | int) or isinstance(problem, bool) or problem == "":
        raise ValueError("no 'problem' (a name or a number)")
    if "correct" in row:
        given = row["correct"]
        grades = [_is_correct(value) for value in (given if isinstance(given, list) else [given])]
        if not grades:
            raise ValueError("'correct' is an empty list")
        return str(problem), len(grades), sum(grades), False
    n, c = _whole(row, "n"), _whole(row, "c")
    if c > n:
        raise ValueError(f"problem '{problem}': c = {c} is more than n = {n}")
    if n == 0:
        raise ValueError(f"problem '{problem}' has no samples (n = 0)")
    return str(problem), n, c, True


def _is_correct(value: Any) -> bool:
    correct = _CORRECT.get(str(value).strip().lower())
    if correct is None:
        raise ValueError(f"correct is {value!r}, not true or false")
    return correct


def _whole(row: Row, name: str) -> int:
    if row.get(name) in (None, ""):
        raise ValueError(f"neither 'correct' nor '{name}'")
    text = str(row[name]).strip()
    if not text.isdecimal():
        raise ValueError(f"{name} is {row[name]!r}, not a whole number")
    return int(text)


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    text = path.read_text(encoding="utf-8")
    try:
        rows = json_value(text)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None
    if isinstance(rows, dict):
        rows = rows.get("problems")
    if not isinstance(rows, list):
        raise DataError(f"{path} is neither a list of rows nor an object with 'problems'", EXPECTED)
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row


def _jsonl_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield f"line {number}", json_value(line)
                except ValueError:
                    yield f"line {number}", line.strip()[:60]


def _csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        first = lines.readline()
        lines.seek(0)
        # spreadsheets also write ; and tabs
        reader = csv.DictReader(lines, delimiter=max(",;\t", key=first.count))
        for row in reader:
            yield f"line {reader.line_num}", row
