"""A file of one's own: a row a completion, or a row a problem with a list of completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import ForeignFile, ForeignSample, only
from sage_cli.problems.files import Row, read_file

EXPECTED = (
    'a row is as {"question": "2+2=?", "gold": "4", "completion": "It is 4", "correct": true}, or '
    "has lists `completions` and `correct`; gold or correct may be absent"
)
_VERDICTS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def recognise(row: Mapping[str, Any]) -> bool:
    """Return True if a row is of such a file."""
    return "question" in row and bool({"completion", "completions"} & row.keys())


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a JSONL, CSV or Parquet file. Raises DataError that names the row."""
    if score is not None:
        raise DataError(f"{path} has no scores by name", "leave out --score")
    samples = [sample for row in read_file(path) for sample in _samples(row)]
    return ForeignFile("jsonl", samples, score="correct")


def _samples(row: Row) -> Iterator[ForeignSample]:
    place, values = row
    if not recognise(values):
        raise DataError(f"{place} has no question, or no completion", EXPECTED)
    question = only(values["question"], place, "question")
    gold = None if values.get("gold") is None else only(values["gold"], place, "gold")
    several = values.get("completions")
    texts = several if isinstance(several, list) else [values.get("completion")]
    if not texts:
        raise DataError(f"{place} has no completion in `completions`", "mend or remove the row")
    verdicts = values.get("correct")
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts] * len(texts)
    if len(verdicts) != len(texts):
        raise DataError(
            f"{place} has {len(texts)} completions and {len(verdicts)} in correct", EXPECTED
        )
    id_ = str(values.get("problem", question))
    seed = values.get("seed")
    for text, correct in zip(texts, verdicts, strict=True):
        if not isinstance(text, str):
            raise DataError(f"{place} has a completion that is no text: {text!r}", EXPECTED)
        yield ForeignSample(
            id_, question, text, gold, _right(correct, place),
            tokens=_whole(values.get("tokens")), seed=_whole(seed),
        )  # fmt: skip


def _right(correct: object, place: str) -> bool | None:
    if correct is None or correct == "":
        return None
    right = _VERDICTS.get(str(correct).strip().lower())
    if right is None:
        raise DataError(f"{place}: correct is {correct!r}, not true or false", EXPECTED)
    return right


def _whole(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None
