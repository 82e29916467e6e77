"""The meaning of a setting, from the schema alone: type, bounds, default, docstring."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from sage_cli.config.base import is_cosmetic
from sage_cli.config.fields import sections_of
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError

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


@cache
def meanings() -> dict[str, tuple[Meaning, ...]]:
    """Every setting by its dotted name, in the schema's order."""
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


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Attribute -> the string that stands below it, in `model` and what it inherits from."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel:
            found |= _own_docstrings(one)
    return found


@cache
def _own_docstrings(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        line.target.id: inspect.cleandoc(below.value.value).replace("\n", " ")
        for line, below in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _below(models: Sequence[type[BaseModel]], above: str) -> Iterator[Meaning]:
    for model in models:
        for name, field in model.model_fields.items():
            inner = sections_of(field.annotation)
            if inner:
                yield from _below(inner, f"{above}{name}.")
            else:
                member = _member(model) if len(models) > 1 else None
                yield _meaning(f"{above}{name}", model, name, field, member)


def _member(model: type[BaseModel]) -> str:
    """Return the value of `name` or `kind` that selects a member of a union."""
    for tag in ("name", "kind"):
        if tag in model.model_fields:
            named = get_args(model.model_fields[tag].annotation)
            return str(named[0]) if named else "another package's"
    return model.__name__


def _meaning(
    key: str, model: type[BaseModel], name: str, field: FieldInfo, member: str | None
) -> Meaning:
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
