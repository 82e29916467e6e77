"""What a row holds at a dotted path, as a text or as the turns of a chat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from textwrap import shorten
from typing import Any

from sage_cli.errors import DataError
from sage_cli.json_value import json_value
from sage_cli.problems.row_files import FileRow, as_text

TURNS_AS_TEXT = re.compile(
    r"""\[\s*\{\s*['"](?:(?:role|content)['"]\s*:|from['"]\s*:\s*['"](?:human|gpt|system)['"])"""
)
_TURN_FORMS = {"role": "content", "from": "value"}
"""The keys of a chat turn's role and its text; ShareGPT's are from and value."""
_SPEAKERS = {"human", "user", "gpt", "assistant", "system", "tool", "function", "observation"}


def column_value(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path`: a column, or a dotted path as `prompt.-1.content`.

    A column whose own name has dots comes first. Of a list with one element, which is how some
    files hold a text, the element is returned, and of a turn's content in parts of type text their
    text. Raises KeyError where there is nothing.
    """
    inside = raw_value_at(values, path)
    if parts := text_parts(inside):
        return "".join(parts)
    return inside[0] if isinstance(inside, list) and len(inside) == 1 else inside


def has(values: Mapping[str, Any], path: str) -> bool:
    """Return True if a row has a value at `path`."""
    try:
        raw_value_at(values, path)
    except KeyError:
        return False
    return True


def raw_value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at `path` as it is, lists of one element too; KeyError without one."""
    inside: Any = values
    for step in (path,) if path in values else path.split("."):
        if isinstance(inside, str) and inside.startswith("{"):
            with suppress(ValueError):  # prime-rl and verifiers write objects as JSON texts
                inside = json_value(inside)
        if isinstance(inside, Mapping) and step in inside:
            inside = inside[step]
        elif isinstance(inside, list) and _is_place(step, inside):
            inside = inside[int(step)]
        else:
            raise KeyError(path)
    return inside


def _is_place(step: str, among: list[Any]) -> bool:
    whole = step.removeprefix("-")
    return whole.isdecimal() and -len(among) <= int(step) < len(among)


def chat_turns(values: Mapping[str, Any], column: str) -> tuple[list[str], str]:
    """Return the roles of the chat turns at `column`, if any, and the key of their texts."""
    turns = raw_value_at(values, column) if has(values, column) else None
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        return [], ""
    for role, text in _TURN_FORMS.items():
        if all(role in turn for turn in turns):
            roles = [str(turn[role]) for turn in turns]
            if role == "role" or _SPEAKERS.issuperset(roles):  # `from` may say where a part is from
                return roles, text
    return [], ""


def find_question(row: FileRow, column: str) -> tuple[str, list[str]]:
    """Return where a row's question stands, and the roles of the turns that are left out.

    It is a column itself, or among chat turns the user's last one. Raises DataError where another
    turn is named, or none is the user's.
    """
    where, values = row
    above, (roles, text) = column, chat_turns(values, column)
    asking = range(-1, -len(roles) - 1, -1)
    if not roles:
        path, _, key = column.rpartition(".")
        above, _, place = path.rpartition(".")
        roles, text = chat_turns(values, above)
        if not roles or key != text:
            return column, []
        asking = range(int(place), int(place) + 1)
    index = next((index for index in asking if roles[index] in ("user", "human")), None)
    if index is None:
        raise DataError(
            f"{where}: {column} contains no turn of the user",
            f"fix or remove it, or give the column {above} itself, whose last user "
            "turn is then the question",
        )
    left_out = [role for n, role in enumerate(roles) if n != index % len(roles)]
    return f"{above}.{index}.{text}", left_out


def text_parts(content: Any) -> list[str]:
    """Return the texts of content in parts of type text; empty for any other content."""
    parts = content if isinstance(content, list) else [content]
    is_text = all(isinstance(part, Mapping) and part.get("type") == "text" for part in parts)
    texts = [part.get("text") for part in parts] if is_text else []
    return texts if all(isinstance(text, str) for text in texts) else []


def text_at(row: FileRow, path: str) -> str:
    """Return a text, a number or a boolean as text; DataError for anything else."""
    value = column_value(row[1], path)
    try:
        return as_text(value)
    except TypeError:
        inner = next(iter(value), "0") if isinstance(value, Mapping) else "0"
        raise DataError(
            f"{row[0]}: {path} is the {type(value).__name__} "
            f"{shorten(str(value), 80)}, not a text, number or boolean",
            f"give the path of a value inside, for example {path}.{inner}, with "
            "evaluation.fields (for training data.rl.fields, data.sft.fields); "
            "fields.any_of=true accepts every element of a list",
        ) from None


def is_filled(values: Mapping[str, Any], path: str) -> bool:
    """Return True if a row has a value at `path` that isn't null, NaN, or an empty text or list."""
    value = column_value(values, path) if has(values, path) else None
    return value not in (None, "", []) and value == value  # NaN differs from itself
