"""TRL's completions of a training step: a Parquet file, a row per completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import choose_column, read_rows, step_notes
from sage_cli.evaluation.logs.scores import read_verdict
from sage_cli.evaluation.logs.source import LogSource

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_COLUMNS = {"prompt", "completion", "advantage"}
_ROW = (
    'a row is as {"step": 30, "prompt": "2+2=?", "completion": "4", "accuracy_reward": 1.0, '
    '"advantage": 0.5}'
)
_GOLDS = ("solution", "answer", "ground_truth", "gold")
"""Columns that a reward function may log besides its reward."""


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a step; the verdict is a reward function's column of 0 and 1.

    Raises DataError for a damaged row.
    """
    rows = list(source.rows())
    none = {*_COLUMNS, *_GOLDS, "step"}
    score, notes = choose_column(rows, reading, none, str(source))

    def columns(row: FileRow) -> dict[str, Any]:
        _, values = row
        return {
            "question": values["prompt"],
            "completion": values["completion"],
            "gold": next((values[name] for name in _GOLDS if values.get(name)), None),
            "correct": None if score is None else read_verdict(values.get(score)),
        }

    return read_rows(
        "trl", rows, reading, columns, _ROW, score=score, notes=(*step_notes(rows), *notes)
    )


PROGRAM = Program(
    name="trl",
    title="TRL",
    file="`completions/completions_STEP.parquet` of `log_completions=True`",
    sample="a completion",
    verdict="the column of a reward function that gives 0 and 1",
    recognise=lambda source: _COLUMNS.issubset(source.first),
    read=_read,
)
