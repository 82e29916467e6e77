"""What the columns of a row hold: question, choices, gold, completions and verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.logs.log import Log, LogSample, ReadOptions
from sage_cli.evaluation.logs.scores import choose_score, without_verdict
from sage_cli.evaluation.logs.source import expecting, single_gold, single_text
from sage_cli.json_value import is_number

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_Columns = Callable[["FileRow"], Mapping[str, Any]]
"""What a row of a program holds, by the names in `FIELDS` and those of a sample's other fields."""
FIELDS = ("problem", "question", "choices", "gold", "completion", "correct", "n", "c")
"""What --fields may name. `n` and `c` are the counts of a problem in a file of counts."""
_VERDICTS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_SPEAKERS = ("assistant", "gpt", "model")
_LIKELY = re.compile(r"(?i)acc|correct|exact|match|solve|math|verif")
"""Names of rewards that say what is correct; those of format, length and language don't."""


def parse_fields(text: str | None) -> dict[str, str]:
    """Return `problem=task,correct=is_correct` as a mapping. Raises ConfigurationError."""
    fields: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not equals or name not in FIELDS or not column or name in fields:
            raise ConfigurationError(
                f"--fields {text}: '{part}' is not a column for one of {', '.join(FIELDS)}",
                "for example --fields "
                "problem=task,completion=response,correct=is_correct,gold=answer; a dotted path "
                "reaches inside, such as prompt.-1.content",
            )
        fields[name] = column
    return fields


def read_rows(
    program: str,
    rows: Iterable[FileRow],
    reading: ReadOptions,
    columns: _Columns,
    expected: str,
    **about: Any,
) -> Log:
    """Return the samples of a file whose rows are completions, or problems with several.

    `columns` says what a row of the program holds, over which `reading.fields` go; `about` are
    further values of the log.
    """
    samples: list[LogSample] = []
    owners = Owners(reading.fields.values())
    for row in rows:
        with expecting(row[0], expected):
            named = _named(row, reading.fields, columns)
            of_row = list(_samples(row, named, expected))
            # two models' rows in one file would be counted as samples of one
            owners.check_same(of_row[0].problem, row)
        samples += of_row
    if "correct" in reading.fields:
        about["score"] = reading.fields["correct"]
    by_user = "problem" in reading.fields
    log = Log(program, samples, **{"ids_name_problems": by_user, "score": "correct", **about})
    return without_verdict(log)


def _named(row: FileRow, fields: Mapping[str, str], columns: _Columns) -> dict[str, Any]:
    """Return what a row holds by name: the user's columns, else the program's."""
    from sage_cli.problems.values import column_value

    where, values = row
    named = {**columns(row)}
    for name, path in fields.items():
        try:
            named[name] = column_value(values, path)
        except KeyError:
            raise DataError(
                f"{where} has no column '{path}' (--fields {name}={path})",
                f"its columns are {', '.join(map(str, values))}",
            ) from None
    return named


def _samples(row: FileRow, named: Mapping[str, Any], expected: str) -> Iterator[LogSample]:
    location, _ = row
    verdicts = named.get("correct")
    several = len(verdicts) if isinstance(verdicts, list | tuple) else 1
    texts = _completions(named["completion"]) if "completion" in named else [None] * several
    if not texts:
        raise DataError(f"{location} has no completion in `completions`", "fix or remove the row")
    question = question_text(named.get("question"), location)
    problem = as_id(named.get("problem"))
    if not question and problem is None:
        raise DataError(f"{location} has no question and no problem", expected)
    gold = single_gold(named.get("gold"))
    choices = named.get("choices")
    choices = tuple(map(str, choices)) if isinstance(choices, list | tuple) else ()
    if named.get("gold") not in (None, "", []) and gold is None and verdicts is None:
        single_text(named["gold"], location, "gold")  # nothing else says what is correct
    verdicts = verdicts if isinstance(verdicts, list | tuple) else [verdicts] * len(texts)
    if len(verdicts) != len(texts):
        raise DataError(
            f"{location} has {len(texts)} completions and {len(verdicts)} in correct", expected
        )
    for text, correct in zip(texts, verdicts, strict=True):
        if text is not None and not isinstance(text, str):
            raise DataError(f"{location} has a completion that is not a text: {text!r}", expected)
        yield LogSample(
            question if problem is None else problem,
            (problem or "") if named.get("question") is None else question,
            text,
            gold,
            None if correct in (None, "") else is_correct(correct),
            extracted=named.get("extracted"),
            tokens=whole_number(named.get("tokens")),
            finish_reason=named.get("finish_reason"),
            seed=whole_number(named.get("seed")),
            choices=choices,
            where=location,
        )


def _completions(value: Any) -> Sequence[Any]:
    """Return the completions of a row: one, or a list of them, each a text or chat turns."""
    if isinstance(value, list | tuple) and not _is_chat(value):
        return [last_answer(text) if _is_chat(text) else text for text in value]
    return [last_answer(value) if _is_chat(value) else "" if value is None else value]


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(turn, Mapping) and "role" in turn for turn in value)
    )


def last_answer(turns: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of the last turn of the model; empty where it said nothing."""
    answers = [turn.get("content") for turn in turns if turn.get("role") in _SPEAKERS]
    return content_text(answers[-1]) if answers else ""


def question_text(value: Any, location: str) -> str:
    """Return a question: a text, or of chat turns the user's, which begin the conversation."""
    if not _is_chat(value):
        return "" if value is None else single_text(value, location, "question")
    asked = [turn for turn in value if turn.get("role") in ("user", "human")]
    # examples are turns of a conversation, too, and only all of them are the prompt
    shown = asked if len(asked) == 1 else value
    return "\n\n".join(content_text(turn.get("content")) for turn in shown)


def content_text(content: Any) -> str:
    """Return the text of a message; of parts those that are texts."""
    if isinstance(content, list | tuple):
        return "\n".join(str(part.get("text") or "") for part in content if "text" in part)
    return "" if content is None else str(content)


def as_id(value: Any) -> str | None:
    """Return an id as text; None for an absent one."""
    if value is None or value == "" or value != value:
        return None
    # pandas turns a column of ids with gaps into floats: 17.0 is the id 17 of another file
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Owners:
    """The benchmark and the model that a file's rows name: each problem has one of each.

    `named` are columns that the user says hold something else.
    """

    NAMES = ("benchmark", "task", "dataset", "model", "policy")

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._names = [name for name in self.NAMES if name not in set(named)]
        self._first: dict[tuple[str, str], Any] = {}

    def check_same(self, problem: str, row: FileRow) -> None:
        """Raise DataError if an earlier row of the problem is of another benchmark or model."""
        where, values = row
        for name in self._names:
            own = values.get(name)
            if own != (first := self._first.setdefault((problem, name), own)):
                raise DataError(
                    f"{where}: problem '{problem}' is of {name} {first} and {own}",
                    "give each its own file",
                )


def is_correct(value: object) -> bool:
    """Return what `correct` says in a row. Raises ValueError for what is neither true nor false."""
    correct = _VERDICTS.get(str(value).strip().lower())
    if correct is None:
        raise ValueError(f"correct is {value!r}, not true or false")
    return correct


def whole_number(value: object) -> int | None:
    """Return a number of tokens or a seed; None for what is not a whole number from 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return int(str(value)) if str(value).isdecimal() else None


def choose_column(
    rows: Sequence[FileRow],
    reading: ReadOptions,
    none: Set[str],
    location: str,
    first: Sequence[str] = (),
) -> tuple[str | None, list[str]]:
    """Return the column of numbers that says what is correct, and notes on the others.

    It is the one that `reading.score` names; else the first of 0 and 1 alone, of those in `first`,
    then of those whose names say it. Columns in `none` are not scores. None where --fields says it.
    """
    if "correct" in reading.fields:
        return None, []
    numbers: dict[str, None] = {}
    for _, values in rows:
        numbers |= {
            name: None
            for name, value in values.items()
            if name not in none and (isinstance(value, bool) or is_number(value))
        }
    order = sorted(
        numbers,
        key=lambda name: (
            first.index(name) if name in first else len(first),
            not _LIKELY.search(name),
        ),
    )
    stated = (
        (name, float(value) if isinstance(value, bool) else value)
        for name in order
        for _, values in rows
        if (value := values.get(name)) is None or isinstance(value, bool) or is_number(value)
    )
    return choose_score(stated, reading.score, location)


def step_notes(rows: Sequence[FileRow]) -> list[str]:
    """Return a note on the training steps that the rows are of."""
    steps = list(dict.fromkeys(str(values["step"]) for _, values in rows if "step" in values))
    if not steps:
        return []
    listed = ", ".join(steps[:5]) + ", ..." * (len(steps) > 5)
    counted_together = ": counted together" if len(steps) > 1 else ""
    return [f"of training step{'s' * (len(steps) > 1)} {listed}{counted_together}"]
