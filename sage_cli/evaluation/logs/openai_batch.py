"""Output files of OpenAI's batch interface, which servers such as vLLM write, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.golds import is_batch_input, with_golds
from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import content_text, read_rows
from sage_cli.evaluation.logs.source import LogSource, expecting

_COLUMNS = {"custom_id", "response"}
_ROW = (
    'a row is as {"custom_id": "q-0", "response": {"status_code": 200, "body": {"choices": '
    '[{"message": {"content": "4"}, "finish_reason": "stop"}]}}, "error": null}'
)
_SIBLINGS = 100
"""Files beside the output among which its input is looked for."""


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of a batch: each choice of each answer, without verdicts.

    Questions and golds are in the batch's input, which is looked for beside it unless --golds names
    files. Raises DataError for a damaged row.
    """
    rows, failed, model = [], 0, None
    for row in source.rows():
        with expecting(row[0], _ROW):
            answer = row[1]["response"] or {}
            body = answer.get("body") or {}
            # a failed request has no completion: it is left out and counted, not graded as wrong
            if row[1].get("error") or answer.get("status_code", 200) != 200:
                failed += 1
                continue
            model = model or body.get("model")
            rows += [(row[0], choice) for choice in _choices(row[1]["custom_id"], body)]
    log = read_rows(
        "openai-batch",
        rows,
        reading,
        lambda row: row[1],
        _ROW,
        score=None,
        settings={"model": model},
        left_out={"their requests failed": failed} if failed else {},
    )
    if reading.golds:  # which are matched with the logs of every program
        return log
    return with_golds(log, tuple(_inputs(source.path, {row["problem"] for _, row in rows})))


def _choices(id_: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the completions of an answer, of either interface."""
    usage = body.get("usage") or {}
    tokens = usage.get("completion_tokens", usage.get("output_tokens"))
    if "output" in body:  # /v1/responses
        parts = [
            content_text(item.get("content") or ())
            for item in body["output"]
            if item.get("type") == "message"
        ]
        cut = body.get("status") == "incomplete"
        texts = [("\n".join(parts), "length" if cut else "stop")]
    else:
        texts = [
            (
                content_text((choice.get("message") or {}).get("content", choice.get("text"))),
                "length" if choice.get("finish_reason") == "length" else "stop",
            )
            for choice in body["choices"]
        ]
    for text, reason in texts:
        # the usage is of all choices together
        known = tokens if len(texts) == 1 else None
        yield {"problem": id_, "completion": text, "finish_reason": reason, "tokens": known}


def _inputs(path: Path, ids: set[str]) -> Iterator[Path]:
    """Yield the batch's input file, if exactly one beside the output has its ids."""
    beside = sorted(path.parent.glob("*.jsonl"))[:_SIBLINGS]
    inputs = [file for file in beside if file != path and is_batch_input(file, ids)]
    if len(inputs) > 1:
        raise DataError(
            f"{path}: {', '.join(map(str, inputs))} could be the input of this batch",
            "name it with --golds FILE",
        )
    yield from inputs


PROGRAM = Program(
    name="openai-batch",
    title="OpenAI batches",
    file="the output of a batch; questions and golds are in its input beside it, or in `--golds`",
    sample="a choice of an answer",
    verdict="none: golds are compared with our judge",
    recognise=lambda source: _COLUMNS.issubset(source.first),
    read=_read,
)
