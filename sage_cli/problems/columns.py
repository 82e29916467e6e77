"""Values of a row by column or dotted path, and the columns of files that other programs read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from sage_cli.problems.files import read_file
from sage_cli.settings.sections.data import FieldsSection

_UNNAMED = FieldsSection()
_GOLDS = ("ground_truth", "solution", "answer", "gold")
"""Columns of the right answer beside `prompt` or `messages`, the first that is there."""

log = logging.getLogger(__name__)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path`: a column, or a dotted path as `prompt.-1.content`.

    A column whose own name has dots comes first. Of a list with one element, which is how some
    files hold a text, the element is returned. Raises KeyError where there is nothing.
    """
    found: Any = values
    for step in (path,) if path in values else path.split("."):
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, list) and _is_place(step, found):
            found = found[int(step)]
        else:
            raise KeyError(path)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def has(values: Mapping[str, Any], path: str) -> bool:
    """Return True if a row has a value at `path`."""
    try:
        value_at(values, path)
    except KeyError:
        return False
    return True


def _is_place(step: str, among: list[Any]) -> bool:
    whole = step.removeprefix("-")
    return whole.isdecimal() and -len(among) <= int(step) < len(among)


def fields_of(path: Path, named: FieldsSection) -> FieldsSection:
    """Return the columns of a file: those that are `named`, else those of a known program's form.

    What was detected is said once.
    """
    if (named.question, named.gold) != (_UNNAMED.question, _UNNAMED.gold):
        return named
    row = next((values for _, values in islice(read_file(path), 1)), {})
    form = None if has(row, "question") and has(row, "gold") else _form(row)
    if form is None:
        return named
    program, question, gold = form
    _say(path, program, question, gold)
    return named.model_copy(update={"question": question, "gold": gold})


def _form(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the program whose form a row has, and its columns of question and gold."""
    question = _asked(row, "prompt") or _asked(row, "messages")
    if question is None:
        return None
    if question.startswith("prompt") and has(row, "reward_model.ground_truth"):
        return "verl", question, "reward_model.ground_truth"
    gold = next((name for name in _GOLDS if row.get(name) not in (None, "", [])), None)
    if gold is None:
        return None
    return "open-instruct" if question.startswith("messages") else "TRL", question, gold


def _asked(row: Mapping[str, Any], column: str) -> str | None:
    """Return the path of the question in a column of text or of turns: the last turn of the user.

    None where the column is neither.
    """
    turns = row.get(column)
    if isinstance(turns, str) and column == "prompt":
        return column
    if not isinstance(turns, list):
        return None
    for back in range(1, len(turns) + 1):
        turn = turns[-back]
        if isinstance(turn, Mapping) and turn.get("role") == "user" and "content" in turn:
            return f"{column}.-{back}.content"
    return None


@cache
def _say(path: Path, program: str, question: str, gold: str) -> None:
    log.warning(
        "%s has the columns of %s: the question is %s, the gold %s", path, program, question, gold
    )
