"""Rows of one's own: a completion each, or a problem each with a list of completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import read_rows
from sage_cli.evaluation.logs.source import LogSource

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_ROW = (
    'a row is as {"question": "2+2=?", "gold": "4", "completion": "It is 4", "correct": true}, or '
    "has lists `completions` and `correct`; gold or correct may be absent. Other columns are named "
    "by --fields question=prompt,completion=response,correct=is_correct"
)
_COLUMNS = ("question", "choices", "gold", "correct", "tokens", "seed")
_IDS = ("problem", "problem_id", "question_id", "task_id", "example_id", "custom_id", "id")
"""Columns of ids, the first that a row has; whether they are problems' is found from all rows."""


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a JSONL, JSON, CSV or Parquet file. Raises DataError for a bad row."""
    if reading.score is not None:
        raise DataError(f"{source} has no scores by name", "leave out --score")

    def columns(row: FileRow) -> dict[str, Any]:
        where, values = row
        if not reading.fields and not _has_completions(values):
            raise DataError(f"{where} has no question, or no completion", _ROW)
        named = {name: values.get(name) for name in _COLUMNS}
        named["problem"] = next((values[name] for name in _IDS if name in values), None)
        texts = next((name for name in ("completions", "completion") if name in values), None)
        return named if texts is None else {**named, "completion": values[texts]}

    return read_rows("jsonl", source.rows(), reading, columns, _ROW)


def _has_completions(row: Mapping[str, Any]) -> bool:
    """Return True if a row is of such a file."""
    return "question" in row and bool({"completion", "completions"} & row.keys())


PROGRAM = Program(
    name="jsonl",
    title="rows of one's own",
    file="JSONL, JSON, CSV or Parquet with `question`, `gold`, `completion` or `completions`, "
    "`correct`, or other columns by `--fields`",
    sample="a completion",
    verdict="`correct`",
    recognise=lambda source: _has_completions(source.first),
    read=_read,
)
