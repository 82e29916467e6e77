"""Questions and golds from another file than the completions, matched by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sage_cli.counted import counted
from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, LogSample
from sage_cli.evaluation.logs.row_fields import as_id, question_text
from sage_cli.evaluation.logs.source import single_gold
from sage_cli.problems.row_files import read_file

_IDS = ("custom_id", "id", "problem", "example_id", "doc_id", "uid", "task_id", "task")
_QUESTIONS = ("question", "prompt", "problem_text", "messages", "input")
_GOLDS = ("gold", "answer", "ground_truth", "solution", "target", "expected_answer", "final_answer")


def with_golds(log: Log, files: Sequence[Path]) -> Log:
    """Return a log with the questions and golds that its samples lack, by their problems' ids.

    Raises DataError for a file without ids, and for one that has none of the log's.
    """
    notes = []
    for file in files:
        known = _read(file)
        samples = [_completed(sample, known) for sample in log.samples]
        changed = {
            old.problem for old, new in zip(log.samples, samples, strict=True) if new is not old
        }
        if not changed:
            raise DataError(
                f"{file} has no question or gold that the log lacks, under any of its ids",
                "the ids are a column called id, custom_id, problem or task; the others question "
                "and gold, or those of a batch's input",
            )
        notes.append(f"questions or golds of {counted(len(changed), 'id')} are those of {file}")
        log = replace(log, samples=samples)
    return replace(log, notes=(*log.notes, *notes))


def is_batch_input(file: Path, ids: set[str]) -> bool:
    """Return True if a file is the input of a batch with all of these ids."""
    try:
        rows = read_file(file)
        first = next(iter(rows), None)
        if first is None or not {"custom_id", "body"} <= first[1].keys():
            return False
        return ids <= {str(values.get("custom_id")) for _, values in [first, *rows]}
    except (DataError, OSError):
        return False


def _read(file: Path) -> dict[str, tuple[str | None, str | None]]:
    known: dict[str, tuple[str | None, str | None]] = {}
    for location, values in read_file(file):
        id_ = next((as_id(values[name]) for name in _IDS if name in values), None)
        if id_ is None:
            raise DataError(
                f"{location} has no id",
                f"name its column {', '.join(_IDS[:-1])} or {_IDS[-1]}, as the log's ids",
            )
        body = values.get("body") or {}
        places = (values, values.get("metadata") or {}, body, body.get("metadata") or {})
        asked, gold = _first(_QUESTIONS, places), _first(_GOLDS, places)
        known[id_] = (question_text(asked, location) or None, single_gold(gold))
    return known


def _first(names: Sequence[str], places: Sequence[Any]) -> Any:
    """Return the first value that any of the places has under one of the names."""
    values = (
        place[name]
        for place in places
        if isinstance(place, Mapping)
        for name in names
        if place.get(name) not in (None, "", [])
    )
    return next(values, None)


def _completed(sample: LogSample, known: Mapping[str, tuple[str | None, str | None]]) -> LogSample:
    question, gold = known.get(sample.problem, (None, None))
    asked = sample.question in ("", sample.problem) and question is not None
    answered = sample.gold is None and gold is not None
    if not (asked or answered):
        return sample
    return replace(
        sample,
        question=question if asked and question else sample.question,
        gold=gold if answered else sample.gold,
    )
