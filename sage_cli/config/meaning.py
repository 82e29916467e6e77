"""The meaning of a setting, from the schema alone: type, bounds, default, docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from json import dumps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from sage_cli.config.layers import sections_of
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.settings.section import Section, docstrings, is_cosmetic

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


def meanings() -> dict[str, tuple[Meaning, ...]]:
    """Every setting by its dotted name, in the schema's order."""
    return _meanings((*Method.members(), *Guide.members()))


@cache
def _meanings(_members: tuple[type[Section], ...]) -> dict[str, tuple[Meaning, ...]]:
    found: dict[str, tuple[Meaning, ...]] = {}
    for one in _below((SageConfig,), ""):
        found[one.key] = (*found.get(one.key, ()), one)
    return found


def meant_settings(typed: str) -> dict[str, tuple[Meaning, ...]]:
    """The settings that `typed` names: one, a section's, or those that end in it.

    Raises ConfigurationError where there is none.
    """
    known = meanings()
    if typed in known:
        return {typed: known[typed]}
    inside = {key: one for key, one in known.items() if key.startswith(f"{typed}.")}
    ending = {key: one for key, one in known.items() if key.endswith(f".{typed}")}
    if found := inside or ending:
        return found
    # `guide.taw` is close to guide.tau, and `taw` to tau
    names = {key.rpartition(".")[2] if "." not in typed else key: key for key in known}
    close = get_close_matches(typed, names, n=1)
    raise ConfigurationError(
        f"there is no setting '{typed}'",
        f"did you mean {names[close[0]]}?" if close else "`sage config show` prints every setting",
    )


def _below(models: Sequence[type[BaseModel]], above: str) -> Iterator[Meaning]:
    """Meanings of the settings of a union's members; what most of them say is of no member."""
    having: dict[str, list[type[BaseModel]]] = {}
    for model in models:
        for name in model.model_fields:
            having.setdefault(name, []).append(model)
    for name, those in having.items():
        if sections_of(those[0].model_fields[name].annotation):
            inner = [sections_of(model.model_fields[name].annotation) for model in those]
            yield from _below(list(dict.fromkeys(one for many in inner for one in many)),
                              f"{above}{name}.")  # fmt: skip
        elif name == "algo":
            said = _meaning(f"{above}{name}", Method, name, None)
            yield replace(said, type="choice", choices=tuple(map(_member, those)))
        else:
            yield from _said(f"{above}{name}", name, those, len(models))


def _said(
    key: str, name: str, having: Sequence[type[BaseModel]], members: int
) -> Iterator[Meaning]:
    """The meanings of one setting, by the members that agree on it, most of them first."""
    alike: dict[Meaning, list[type[BaseModel]]] = {}
    for model in having:
        said = _meaning(key, model, name, None)
        alike.setdefault(replace(said, section="", default=dumps(said.default)), []).append(model)
    for those in sorted(alike.values(), key=len, reverse=True):
        most = len(those) > members / 2
        of = next(one for one in those[0].__mro__ if name in inspect.get_annotations(one))
        yield _meaning(key, of, name, None if most else ", ".join(map(_member, those)))


def _member(model: type[BaseModel]) -> str:
    """Return the value of `algo`, `name` or `kind` that selects a member of a union."""
    for tag in ("algo", "name", "kind"):
        if tag in model.model_fields:
            named = get_args(model.model_fields[tag].annotation)
            return str(named[0]) if named else "another package's"
    return model.__name__


def _meaning(key: str, model: type[BaseModel], name: str, member: str | None) -> Meaning:
    field = model.model_fields[name]
    bounds = [
        f"{words} {getattr(one, sign):g}"
        for one in field.metadata
        for sign, words in _BOUNDS.items()
        if getattr(one, sign, None) is not None
    ]
    default = "required"
    if not field.is_required():
        default = to_jsonable_python(field.get_default(call_default_factory=True))
    return Meaning(
        key,
        member,
        ", ".join([_in_words(field.annotation), *bounds]),
        default,
        tuple(map(str, _choices(field.annotation))),
        docstrings(model).get(name, ""),
        inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        is_cosmetic(model, name),
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
