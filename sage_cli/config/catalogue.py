"""What every setting means: type, default and docstring, from the schema alone."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from difflib import get_close_matches
from json import dumps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from sage_cli.config.schema import UNIONS, Setting, settings
from sage_cli.errors import ConfigurationError
from sage_cli.methods.method import Method
from sage_cli.settings.section import docstrings, is_cosmetic

_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path",
          NoneType: "null", Any: "anything"}  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """A setting as one section has it; a union's members may each have it in a way of their own.

    `member` is the member's name, as `branch`, and None outside unions. `section` says what its
    section is about, and so where in the paper its default comes from.
    """

    key: str
    member: str | None
    type: str
    default: Any
    choices: tuple[str, ...]
    meaning: str
    section: str
    cosmetic: bool


def meant_settings(typed: str) -> dict[str, tuple[Meaning, ...]]:
    """Return the settings that `typed` names: one, a section's, or those that end in it.

    Raises ConfigurationError where there is none.
    """
    by_name = settings()
    inside = [key for key in by_name if f"{key}.".startswith(f"{typed}.")]
    ending = [key for key in by_name if key.endswith(f".{typed}")]
    if keys := inside or ending:
        return {key: meanings_of(by_name[key]) for key in keys}
    # `guide.taw` is close to guide.tau, and `taw` to tau
    names = {key.rpartition(".")[2] if "." not in typed else key: key for key in by_name}
    close = get_close_matches(typed, names, n=1)
    raise ConfigurationError(
        f"there is no setting '{typed}'",
        f"did you mean {names[close[0]]}?" if close else "`sage config show` prints every setting",
    )


def meanings_of(setting: Setting) -> tuple[Meaning, ...]:
    """Return the meanings of a setting, one for all members that agree, most of them first.

    What most members of a union say is of no member in particular.
    """
    if setting.key == "rl.algo":  # each method's class has its own name as the only choice
        choices = tuple(map(_member_name, setting.sections))
        return (replace(_meaning(setting, Method, None), type="choice", choices=choices),)
    alike: dict[Meaning, list[type[BaseModel]]] = {}
    for section in setting.sections:
        meaning = _meaning(setting, section, None)
        alike.setdefault(replace(meaning, section="", default=dumps(meaning.default)), []).append(
            section
        )
    meanings = []
    for agreeing in sorted(alike.values(), key=len, reverse=True):
        most = len(agreeing) > setting.members / 2
        definer = next(
            base for base in agreeing[0].__mro__ if setting.name in inspect.get_annotations(base)
        )
        member = None if most else ", ".join(map(_member_name, agreeing))
        meanings.append(_meaning(setting, definer, member))
    return tuple(meanings)


def _member_name(section: type[BaseModel]) -> str:
    """Return the value of `algo`, `name` or `kind` that selects a member of a union."""
    for tag in UNIONS.values():
        if tag in section.model_fields:
            names = get_args(section.model_fields[tag].annotation)
            return str(names[0]) if names else "another package's"
    return section.__name__


def _meaning(setting: Setting, section: type[BaseModel], member: str | None) -> Meaning:
    field = section.model_fields[setting.name]
    bounds = [
        f"{words} {getattr(constraint, sign):g}"
        for constraint in field.metadata
        for sign, words in _BOUNDS.items()
        if getattr(constraint, sign, None) is not None
    ]
    default = "required"
    if not field.is_required():
        default = to_jsonable_python(field.get_default(call_default_factory=True))
    return Meaning(
        setting.key,
        member,
        ", ".join([_in_words(field.annotation), *bounds]),
        default,
        tuple(map(str, _choices(field.annotation))),
        docstrings(section).get(setting.name, ""),
        inspect.cleandoc(section.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        is_cosmetic(section, setting.name),
    )


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _in_words(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _in_words(parts[0])
    if origin is Literal:
        return "choice"
    if origin in (Union, UnionType):
        return " or ".join(map(_in_words, parts))
    if origin is tuple:
        if Ellipsis in parts:
            return f"list of {_in_words(parts[0])}"
        return f"list of {len(parts)}: {', '.join(map(_in_words, parts))}"
    if origin in (list, dict):
        return "list" if origin is list else "mapping"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))
