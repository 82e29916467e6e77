"""Columns of questions and golds, recognised by the names that data sets usually give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.golds import (
    HASHES,
    GoldRule,
    is_prose,
    is_worked,
    only_element,
    whole,
    worked_answer,
)
from sage_cli.problems.row_files import as_text
from sage_cli.problems.values import chat_turns, column_value, has, is_filled

QUESTIONS = (
    "prompt",
    "messages",
    "question",
    "problem",
    "query",
    "instruction",
    "input",
    "conversations",
)
"""Columns of a question, the first that rows have counts; `instruction` goes on in `input`."""
GOLDS = (
    "reward_model.ground_truth",
    "ground_truth",
    "answer",
    "solution",
    "gold",
    "final_answer",
    "expected_answer",
    "gold_answer",
    "correct_answer",
    "reference_answer",
    "target",
    "verification_info.ground_truth",
    "info.ground_truth",
    "info.answer",
    "extra_info.answer",
    "label",
    "gold_standard_solution",
    "worked_solution",
    "generated_solution",
    "completion",
    "response",
    "output",
)
"""Places of a gold. Those that hold bare answers come before those that hold worked solutions,
whatever their names; else the first that rows have filled counts."""
SOLUTIONS = ("solution", "answer", "worked_solution", "gold_standard_solution")
"""Columns whose worked solution is the publisher's, so that it should end with the gold."""
BESIDE = ("choices", "options", "image", "images", "body", "context", "passage")
"""Columns without which a question can't be answered, and which nobody would see."""

RowValues = Mapping[str, Any]


@dataclass(frozen=True)
class Recognised:
    """The columns that rows have their questions and golds in.

    `solution` is a column of worked solutions beside bare golds; `program` is the one that writes
    such rows, None where several do.
    """

    question: tuple[tuple[str, ...], ...]
    gold: tuple[tuple[str, GoldRule], ...]
    solution: str | None
    program: str | None


def recognise(
    rows: Sequence[RowValues], question: str | None = None, gold: str | None = None
) -> Recognised | None:
    """Return the columns of rows, of which the user may have named one; None without a pair.

    Raises DataError where a question would be asked without what belongs to it, such as choices.
    """
    questions = ((question,),) if question else _questions(rows)
    golds = [gold] if gold else _gold_columns(rows)
    if not questions or not golds:
        return None
    beside = next((name for name in _actual(rows, BESIDE) if _any_filled(rows, name)), None)
    if beside is not None and question is None:
        raise DataError(
            f"column {beside} belongs to the questions in {_listed(questions)}, and would be left "
            "out of them",
            f"write it into the questions; or, if they can be answered without {beside}, name "
            "the column of questions",
        )
    chosen = tuple((column, gold_rule(rows, column)) for column in golds)
    used = {column for column, _ in chosen}
    solution = next(
        (
            name
            for name in _actual(rows, SOLUTIONS)
            if name not in used and any(map(is_worked, _texts(rows, name)))
        ),
        None,
    )
    return Recognised(questions, chosen, solution, _program(rows, questions, chosen[0]))


def gold_rule(rows: Sequence[RowValues], column: str) -> GoldRule:
    """Return how the golds of a column are read: whole, unless one is a worked solution or a list.

    A plain answer is read whole under every rule.
    """
    texts = list(_texts(rows, column))
    if any(map(is_worked, texts)):
        return worked_answer
    lists = bool(texts) and all(only_element(text) != text for text in texts)
    return only_element if lists else whole


def _questions(rows: Sequence[RowValues]) -> tuple[tuple[str, ...], ...]:
    """Return the columns of questions; rows of one file may be prompts and messages by turns."""
    names = _actual(rows, QUESTIONS)
    chats = [name for name in names if _is_question(rows, name) and name in ("prompt", "messages")]
    if chats:
        return tuple((name,) for name in chats)
    asked = next((name for name in names if _is_question(rows, name)), None)
    if asked is None:
        return ()
    more = next(iter(_actual(rows, ("input",))), None)
    if asked.lower() == "instruction" and more and _any_filled(rows, more):
        return ((asked, more), (asked,))
    return ((asked,),)


def _is_question(rows: Sequence[RowValues], column: str) -> bool:
    return any(chat_turns(row, column)[0] or isinstance(row.get(column), str) for row in rows)


def _gold_columns(rows: Sequence[RowValues]) -> list[str]:
    """Return the columns from which each row's gold is read, as few as hold one of every row.

    A column that only some rows have filled is followed by another for the rest, if there is one.
    Where none is filled anywhere it is the first that is there, whose lines are then named.
    """
    names = [name for name in _actual(rows, GOLDS) if not _is_chat(rows, name)]
    filled = [name for name in names if _any_filled(rows, name)]
    ordered = sorted(filled, key=lambda name: not _holds_answers(rows, name))
    ordered += list(_last_turns(rows))
    if not ordered:
        return names[:1]
    chosen, left = ordered[:1], [row for row in rows if not is_filled(row, ordered[0])]
    for name in ordered[1:]:
        if any(is_filled(row, name) for row in left):
            chosen.append(name)
            left = [row for row in left if not is_filled(row, name)]
    return chosen


def _is_chat(rows: Sequence[RowValues], column: str) -> bool:
    return any(chat_turns(row, column)[0] for row in rows)


def _holds_answers(rows: Sequence[RowValues], column: str) -> bool:
    """Return True for a column of bare answers: at most half of it is worked, or prose."""
    texts = list(_texts(rows, column))
    return 2 * sum(is_worked(text) or is_prose(text) for text in texts) <= len(texts)


def _last_turns(rows: Sequence[RowValues]) -> Iterator[str]:
    """Yield where the assistant's turn at a chat's end stands, for rows that have no other gold."""
    for column in ("completion", "messages", "conversations"):
        turns = [chat_turns(row, column) for row in rows]
        text = next((key for roles, key in turns if roles), None)
        if text and all(roles and roles[-1] in ("assistant", "gpt") for roles, _ in turns):
            yield f"{column}.-1.{text}"


def _program(
    rows: Sequence[RowValues], questions: tuple[tuple[str, ...], ...], gold: tuple[str, GoldRule]
) -> str | None:
    asked, (answered, rule) = questions[0][0], gold
    if answered.startswith("reward_model."):
        return "verl"
    if asked == "prompt":
        return "prime-rl" if answered.startswith(("verification_info", "info.")) else "TRL"
    if asked == "messages":
        return "an OpenAI chat" if answered.startswith("messages.") else "open-instruct"
    if asked == "conversations":
        return "ShareGPT"
    if (asked, answered) == ("question", "answer"):
        hashes = rule is worked_answer and any(HASHES in text for text in _texts(rows, answered))
        return "GSM8K" if hashes else "verifiers" if _actual(rows, ("info",)) else None
    return "MATH" if (asked, rule) == ("problem", worked_answer) else None


def _actual(rows: Sequence[RowValues], names: Sequence[str]) -> list[str]:
    """Return the names that rows have, in the spelling of the rows: Question for question."""
    spelled: dict[str, str] = {}
    for row in rows:
        for column in row:
            spelled.setdefault(column.lower(), column)
    there = []
    for name in names:
        top, dot, inside = name.partition(".")
        path = spelled.get(top, top) + dot + inside
        if any(has(row, path) for row in rows):
            there.append(path)
    return there


def _any_filled(rows: Sequence[RowValues], column: str) -> bool:
    return any(is_filled(row, column) for row in rows)


def _texts(rows: Sequence[RowValues], column: str) -> Iterator[str]:
    """Yield the texts at a column; what is not a text is for whoever reads the problems."""
    for row in rows:
        if not has(row, column):
            continue
        value = column_value(row, column)
        for single in value if isinstance(value, list) else [value]:
            try:
                text = as_text(single)
            except TypeError:
                continue
            if text:
                yield text


def _listed(questions: tuple[tuple[str, ...], ...]) -> str:
    return " and ".join(column for columns in questions for column in columns)
