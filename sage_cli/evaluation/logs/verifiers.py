"""Results of verifiers, which prime-rl evaluates with: `results.jsonl`, a row per rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sage_cli.evaluation.logs.log import Log, ReadOptions, counted
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import choose_column, read_rows
from sage_cli.evaluation.logs.scores import read_verdict
from sage_cli.evaluation.logs.source import LogSource, results_beside

if TYPE_CHECKING:
    from sage_cli.problems.row_files import Row

_COLUMNS = {"example_id", "prompt", "completion", "reward"}
_ROW = (
    'a row is as {"example_id": 0, "prompt": [{"role": "user", "content": "2+2=?"}], "completion": '
    '[{"role": "assistant", "content": "4"}], "answer": "4", "reward": 1.0}'
)
_NO_SCORES = {*_COLUMNS, "answer", "task", "is_completed", "is_truncated", "num_turns"} - {"reward"}


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of an evaluation; the verdict is the reward, or a metric of 0 and 1.

    A rollout that failed counts with its reward, as in verifiers' own mean. Raises DataError for a
    damaged row.
    """
    rows = list(source.rows())
    score, notes = choose_column(rows, reading, _NO_SCORES, str(source), first=("reward",))
    failed = sum(bool(values.get("error")) for _, values in rows)
    if failed:
        notes.append(f"{counted(failed, 'rollout')} ended with an error: counted by their reward")

    def columns(row: Row) -> dict[str, Any]:
        _, values = row
        cut = values.get("is_truncated")
        return {
            "question": values["prompt"],
            "completion": values["completion"],
            "gold": values.get("answer"),
            "problem": values["example_id"],
            "correct": None if score is None else read_verdict(values.get(score)),
            "tokens": (values.get("token_usage") or {}).get("output_tokens"),
            "finish_reason": None if cut is None else "length" if cut else "stop",
        }

    def beside(stored: Any) -> dict[str, Any]:
        asked = stored.get("sampling_args") or {}
        kept = {name: asked.get(name) for name in ("temperature", "top_p", "max_tokens", "seed")}
        return {"model": stored.get("model"), "task": stored.get("env_id"), **kept}

    return read_rows(
        "verifiers", rows, reading, columns, _ROW, score=score, notes=tuple(notes),
        settings=results_beside(source.path.with_name("metadata.json"), beside),
    )  # fmt: skip


PROGRAM = Program(
    name="verifiers",
    title="verifiers and prime-rl",
    file="`results.jsonl` of `vf-eval` or `prime eval run`",
    sample="a rollout",
    verdict="`reward`, or a metric of 0 and 1",
    recognise=lambda source: _COLUMNS.issubset(source.first),
    read=_read,
)
