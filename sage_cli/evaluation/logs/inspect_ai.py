"""Logs of Inspect: `.json`, or `.eval`, a zip archive of JSON packed with Zstandard or deflate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, LogSample
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.scores import choose_score, verdict_of
from sage_cli.evaluation.logs.source import Source, expecting, single_text

_INSPECT = {"eval", "status", "samples"}
_INSPECT_VALUES = {"C": 1.0, "P": 0.0, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}


def _read(source: Source, score: str | None) -> Log:
    """Return a log's samples; an epoch is a sample of its problem.

    Raises DataError for a log without samples, without that score, or that is damaged.
    """
    with expecting(source, "write the log again with `inspect log convert`"):
        head, samples = _head_and_samples(source)
        return _inspect_file(source.path, head, samples, score)


def _head_and_samples(source: Source) -> tuple[Mapping[str, Any], list[Any]]:
    if not source.is_archive:
        return source.value, list(source.value["samples"] or ())
    if "header.json" not in source.members:
        raise DataError(
            f"{source} has no header.json: the evaluation was not finished",
            "run `inspect eval-retry` on it, and import its log",
        )
    names = sorted(name for name in source.members if name.startswith("samples/"))
    return source.member("header.json"), [source.member(name) for name in names]


def _inspect_file(path: Path, head: Mapping[str, Any], rows: list[Any], score: str | None) -> Log:
    if not rows:
        raise DataError(
            f"{path} holds no samples", "evaluate again without --no-log-samples, or another log"
        )
    failed = [row for row in rows if row.get("error")]
    rows = sorted(
        (row for row in rows if not row.get("error")),
        key=lambda row: (str(row["id"]), row["epoch"]),
    )
    scores = [(name, _inspect_value(row, name)) for row in rows for name in row.get("scores") or {}]
    chosen, not_taken = choose_score(scores, score, str(path))
    samples = [_inspect_sample(row, chosen, f"{path}, sample {row['id']}") for row in rows]
    partial = sum(_inspect_score(row, chosen) == "P" for row in rows)
    notes = []
    if failed:
        notes.append(f"{len(failed)} samples failed, and are left out")
    if partial:
        notes.append(f"{partial} values of {chosen} are P, partially right: they count as wrong")
    notes += not_taken
    about, config = head["eval"], (head.get("plan") or {}).get("config") or {}
    config = {**config, **(about.get("model_generate_config") or {})}
    settings = {key: config.get(key) for key in ("temperature", "top_p", "max_tokens", "seed")}
    settings = {"model": about.get("model"), "task": about.get("task"), **settings}
    settings["version"] = (about.get("packages") or {}).get("inspect_ai")
    return Log("inspect", samples, chosen, settings, tuple(notes))


def _inspect_sample(row: Mapping[str, Any], score: str | None, location: str) -> LogSample:
    choice = row["output"]["choices"][0]
    value = _inspect_value(row, score)
    answer = (row.get("scores") or {}).get(score or "", {}).get("answer")
    usage = row["output"].get("usage") or {}
    stopped = choice.get("stop_reason")
    target = row.get("target")
    return LogSample(
        problem=str(row["id"]),
        question=_inspect_question(row["input"]),
        text=_inspect_text(choice["message"]["content"]),
        gold=None if target in (None, "", []) else single_text(target, location, "target"),
        correct=verdict_of(value),
        extracted=answer if isinstance(answer, str) and answer else None,
        tokens=usage.get("output_tokens"),
        finish_reason="length" if stopped in ("max_tokens", "model_length") else "stop",
    )


def _inspect_value(row: Mapping[str, Any], score: str | None) -> object:
    value = _inspect_score(row, score)
    return _INSPECT_VALUES.get(value, value) if isinstance(value, str | bool) else value


def _inspect_score(row: Mapping[str, Any], score: str | None) -> object:
    return (row.get("scores") or {}).get(score or "", {}).get("value")


def _inspect_question(asked: Any) -> str:
    """Return the input, of a conversation all turns of system and user."""
    if isinstance(asked, str):
        return asked
    return "\n\n".join(
        _inspect_text(turn["content"]) for turn in asked if turn.get("role") != "assistant"
    )


def _inspect_text(content: Any) -> str:
    """Return a message's text; of parts those that are texts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


PROGRAM = Program(
    name="inspect",
    title="Inspect",
    file="`.eval` or `.json`",
    sample="an epoch",
    verdict="a scorer; `C` is correct, `P` is not",
    recognise=lambda source: source.is_archive or _INSPECT.issubset(source.first),
    read=_read,
)
