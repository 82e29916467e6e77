"""Keys of the schema's sections, and every setting by its dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from sage_cli.config.schema import SageConfig
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.settings.base import Section, is_cosmetic
from sage_cli.settings.extensible import Extensible, in_file

UNIONS = {"rl": "algo", "guide": "name", "model": "kind"}
"""Sections that are unions, and the key that tells their members apart."""
LASTING = {"rl": frozenset(Method.model_fields)}
"""Settings of a union that are of no member in particular: they hold whichever is chosen."""


@dataclass(frozen=True)
class Setting:
    """A setting's dotted name and what the schema says of it.

    `integer`: whole numbers only. `open`: a mapping, whose keys the schema doesn't know.
    """

    key: str
    integer: bool = False
    cosmetic: bool = False
    open: bool = False


def settings() -> dict[str, Setting]:
    """Every setting, over all members of unions, in the schema's order."""
    return _settings((*Method.members(), *Guide.members()))


def setting(key: str) -> Setting | None:
    """Return the setting called `key`, or the mapping that is open to it; None if there is neither.

    Of a union only the root is read if it has the setting, and not each member's file.
    """
    models: Sequence[type[BaseModel]] = (SageConfig,)
    parts = key.split(".")
    for place, part in enumerate(parts):
        having = [model for model in models if part in model.model_fields]
        inside = parts[place + 1 : place + 2]
        annotations = [model.model_fields[part].annotation for model in having]
        models = [model for one in annotations for model in _having(one, inside)]
        if not models:
            found = _setting(".".join(parts[: place + 1]), having, part)
            return found if having and (found.open or not inside) else None
    return None


def settings_of(sections: Sequence[str]) -> dict[str, Setting]:
    """Return every setting of these sections, over all members of unions."""
    models = [(name, sections_of(SageConfig.model_fields[name].annotation)) for name in sections]
    return {one.key: one for name, every in models for one in _below(every, f"{name}.")}


@cache
def _settings(_members: tuple[type[Section], ...]) -> dict[str, Setting]:
    return {one.key: one for one in _below((SageConfig,), "")}


def member(section: str) -> str:
    """Return which member of a union applies where none is chosen."""
    return str(getattr(SageConfig.model_fields[section].default, UNIONS[section]))


def members(section: str) -> dict[str, type[BaseModel]]:
    """Return the members of a union by name; the one for any other name is called ""."""
    found = {}
    for one in sections_of(SageConfig.model_fields[section].annotation):
        names = get_args(one.model_fields[UNIONS[section]].annotation)
        found[str(names[0]) if names else ""] = one
    return found


def member_of(section: str, name: str) -> type[BaseModel]:
    """Return the section that `name` chooses in a union; its default's for an unknown name."""
    union = SageConfig.model_fields[section].annotation
    if isinstance(union, type) and issubclass(union, Extensible) and (kind := in_file(union, name)):
        return kind
    known = members(section)
    return known.get(name) or known.get("") or known[member(section)]


def own_settings(section: str, name: str) -> set[str]:
    """Return the settings that a member of a union shares with no class that it inherits from."""
    of = member_of(section, name)
    inherited = {key for base in of.__bases__ for key in getattr(base, "model_fields", ())}
    return set(of.model_fields) - inherited


def sections_at(path: Sequence[str]) -> Sequence[type[BaseModel]]:
    """Return the sections at `path`; more than one if it is a union."""
    models: Sequence[type[BaseModel]] = (SageConfig,)
    for part in path:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in sections_of(annotation)]
    return models


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field of this type may hold: none, one, or the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return list(annotation.members())
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for part in get_args(annotation) for model in sections_of(part)]
    return []


def _below(models: Sequence[type[BaseModel]], above: str) -> Iterator[Setting]:
    for key in dict.fromkeys(key for model in models for key in model.model_fields):
        having = [model for model in models if key in model.model_fields]
        types = [model.model_fields[key].annotation for model in having]
        inner = [section for one in types for section in sections_of(one)]
        if inner:
            yield from _below(inner, f"{above}{key}.")
        else:
            yield _setting(f"{above}{key}", having, key)


def _having(annotation: Any, inside: Sequence[str]) -> list[type[BaseModel]]:
    """Return the sections that a field may hold; of a union its root, if that has the next key."""
    is_union = isinstance(annotation, type) and issubclass(annotation, Extensible)
    if is_union and inside and inside[0] in annotation.model_fields:
        return [annotation]
    return sections_of(annotation)


def _setting(name: str, having: Sequence[type[BaseModel]], key: str) -> Setting:
    types = [_parts(model.model_fields[key].annotation) for model in having]
    return Setting(
        name,
        integer=all(parts <= {int, NoneType} for parts in types),
        cosmetic=all(is_cosmetic(model, key) for model in having),
        open=any(get_origin(part) is dict for parts in types for part in parts),
    )


def _parts(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return {part for one in get_args(annotation) for part in _parts(one)}
    return {annotation}
