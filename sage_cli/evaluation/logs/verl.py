"""verl's dumps of rollouts and of validations: a JSONL file per step, a row per output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import choose_column, read_rows, step_notes
from sage_cli.evaluation.logs.scores import read_verdict
from sage_cli.evaluation.logs.source import LogSource

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_COLUMNS = {"input", "output", "score"}
_ROW = 'a row is as {"input": "2+2=?", "output": "It is 4", "gts": "4", "score": 1.0, "step": 0}'
_NO_SCORES = {*_COLUMNS, "gts", "step", "uid", "request_id"} - {"score"}
_UID = re.compile(r"(?P<problem>.+)_(?P<rollout>\d+)_(?P<output>\d+)")
"""A key of an agent loop's output, of which a rollout may have several."""
_EARLIER = "an earlier output of a rollout, whose last one has the score"


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a dump; `acc` is the verdict where a reward function gives it.

    That is verl's own choice for its core metric. Raises DataError for a damaged row.
    """
    rows = list(source.rows())
    score, notes = choose_column(rows, reading, _NO_SCORES, str(source), first=("acc", "score"))
    uids = [_UID.fullmatch(str(values.get("uid", ""))) for _, values in rows]
    is_agent = bool(uids) and all(uids)
    left_out = {}
    if is_agent:
        last = {(uid["problem"], uid["rollout"]): n for n, uid in enumerate(uids) if uid}
        kept = [rows[n] for n in sorted(last.values())]
        left_out = {_EARLIER: len(rows) - len(kept)} if len(kept) < len(rows) else {}
        rows = kept

    def columns(row: FileRow) -> dict[str, Any]:
        _, values = row
        uid = values.get("uid")
        number = _UID.fullmatch(str(uid)) if is_agent else None
        return {
            "question": values["input"],
            "completion": values["output"],
            "gold": values.get("gts"),
            "problem": number["problem"] if number else uid,
            "correct": None if score is None else read_verdict(values.get(score)),
        }

    return read_rows(
        "verl",
        rows,
        reading,
        columns,
        _ROW,
        score=score,
        left_out=left_out,
        notes=(*step_notes(rows), *notes),
        ids_name_problems=is_agent,
    )


PROGRAM = Program(
    name="verl",
    title="verl",
    file="`STEP.jsonl` of `trainer.rollout_data_dir` or `trainer.validation_data_dir`",
    sample="an output; of an agent's rollout the last one",
    verdict="`acc` where the reward function gives it, else `score`, or another column of 0 and 1",
    recognise=lambda source: (
        _COLUMNS.issubset(source.first) and bool({"gts", "step"} & source.first.keys())
    ),
    read=_read,
)
