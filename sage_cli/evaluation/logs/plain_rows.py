"""Rows of one's own: a completion each, or a problem each with a list of completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, LogSample
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.source import Source, single_text

if TYPE_CHECKING:
    from sage_cli.problems.row_files import Row

_JSONL_ROW = (
    'a row is as {"question": "2+2=?", "gold": "4", "completion": "It is 4", "correct": true}, or '
    "has lists `completions` and `correct`; gold or correct may be absent"
)
_JSONL_VERDICTS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _has_completions(row: Mapping[str, Any]) -> bool:
    """Return True if a row is of such a file."""
    return "question" in row and bool({"completion", "completions"} & row.keys())


def _read(source: Source, score: str | None) -> Log:
    """Return the samples of a JSONL, CSV or Parquet file. Raises DataError that names the row."""
    if score is not None:
        raise DataError(f"{source} has no scores by name", "leave out --score")
    owners = Owners()

    def samples(row: Row) -> Iterator[LogSample]:
        for sample in _jsonl_samples(row):
            try:
                owners.refuse_another(sample.problem, row[1])
            except ValueError as error:
                raise DataError(f"{row[0]}: {error}", "give each its own file") from None
            yield sample

    return Log("jsonl", source.each(samples, _JSONL_ROW), score="correct")


class Owners:
    """The benchmark and the model that a file's rows name: each problem has one of each."""

    NAMES = ("benchmark", "task", "dataset", "model", "policy")

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Any] = {}

    def refuse_another(self, problem: str, row: Mapping[str, Any]) -> None:
        """Raise ValueError if an earlier row of the problem is of another benchmark or model."""
        for name in self.NAMES:
            own = row.get(name)
            if own != (first := self._first.setdefault((problem, name), own)):
                raise ValueError(f"problem '{problem}' is of {name} {first} and {own}")


def _jsonl_samples(row: Row) -> Iterator[LogSample]:
    location, values = row
    if not _has_completions(values):
        raise DataError(f"{location} has no question, or no completion", _JSONL_ROW)
    question = single_text(values["question"], location, "question")
    gold = None if values.get("gold") is None else single_text(values["gold"], location, "gold")
    several = values.get("completions")
    texts = several if isinstance(several, list) else [values.get("completion")]
    if not texts:
        raise DataError(f"{location} has no completion in `completions`", "fix or remove the row")
    verdicts = values.get("correct")
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts] * len(texts)
    if len(verdicts) != len(texts):
        raise DataError(
            f"{location} has {len(texts)} completions and {len(verdicts)} in correct", _JSONL_ROW
        )
    id_ = str(values.get("problem", question))
    seed = values.get("seed")
    for text, correct in zip(texts, verdicts, strict=True):
        if not isinstance(text, str):
            raise DataError(f"{location} has a completion that is not a text: {text!r}", _JSONL_ROW)
        yield LogSample(
            id_, question, text, gold, None if correct in (None, "") else is_correct(correct),
            tokens=_whole_number(values.get("tokens")), seed=_whole_number(seed),
        )  # fmt: skip


def is_correct(value: object) -> bool:
    """Return what `correct` says in a row. Raises ValueError for what is neither true nor false."""
    correct = _JSONL_VERDICTS.get(str(value).strip().lower())
    if correct is None:
        raise ValueError(f"correct is {value!r}, not true or false")
    return correct


def _whole_number(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None


PROGRAM = Program(
    name="jsonl",
    title="rows of one's own",
    file="JSONL, CSV or Parquet with `question`, `gold`, `completion` or `completions`, `correct`",
    sample="a completion",
    verdict="`correct`",
    recognise=lambda source: _has_completions(source.first),
    read=_read,
)
