"""Every setting by its dotted name, with its meaning: both from the schema alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from json import dumps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.settings.section import Extensible, Section, docstrings, in_file, is_cosmetic

UNIONS = {"rl": "algo", "guide": "name", "model": "kind"}
"""Sections that are unions, and the key that tells their members apart."""


@dataclass(frozen=True)
class Setting:
    """A setting's dotted name and the sections that have it.

    In a union these are some of its members, `members` of them in all.
    """

    key: str
    sections: tuple[type[BaseModel], ...]
    members: int

    @property
    def name(self) -> str:
        """The name of its field, without the sections that it lies in."""
        return self.key.rpartition(".")[2]

    @cached_property
    def integer(self) -> bool:
        """Return True if it takes whole numbers only."""
        return all(parts <= {int, NoneType} for parts in self._types)

    @cached_property
    def cosmetic(self) -> bool:
        """Return True if it changes no result."""
        return all(is_cosmetic(section, self.name) for section in self.sections)

    @cached_property
    def open(self) -> bool:
        """Return True if it is a mapping, whose keys the schema doesn't know."""
        return any(get_origin(part) is dict for parts in self._types for part in parts)

    @property
    def _types(self) -> list[set[Any]]:
        return [_parts(section.model_fields[self.name].annotation) for section in self.sections]


def settings() -> dict[str, Setting]:
    """Return every setting, over all members of unions, in the schema's order."""
    return _settings((*Method.members(), *Guide.members()))


@cache
def _settings(_members: tuple[type[Section], ...]) -> dict[str, Setting]:
    return {setting.key: setting for setting in _below((SageConfig,), "")}


def settings_of(sections: Sequence[str]) -> dict[str, Setting]:
    """Return every setting of these sections, over all members of unions."""
    return {
        setting.key: setting
        for name in sections
        for setting in _below(sections_at([name]), f"{name}.")
    }


def setting(key: str) -> Setting | None:
    """Return the setting called `key`, or the mapping that is open to it; None if there is neither.

    Of a union only the root is read if it has the setting, and not each member's file.
    """
    models: Sequence[type[BaseModel]] = (SageConfig,)
    parts = key.split(".")
    for depth, part in enumerate(parts, 1):
        having = [model for model in models if part in model.model_fields]
        following = parts[depth : depth + 1]
        annotations = [model.model_fields[part].annotation for model in having]
        inner = [
            section for annotation in annotations for section in _having(annotation, following)
        ]
        if having and not inner:
            setting = Setting(".".join(parts[:depth]), tuple(having), len(models))
            return setting if setting.open or not following else None
        models = inner
    return None


def _having(annotation: Any, following: Sequence[str]) -> list[type[BaseModel]]:
    """Return the sections that a field may hold; of a union its root, if that has the next key."""
    is_union = isinstance(annotation, type) and issubclass(annotation, Extensible)
    if is_union and following and following[0] in annotation.model_fields:
        return [annotation]
    return sections_of(annotation)


def _below(sections: Sequence[type[BaseModel]], above: str) -> Iterator[Setting]:
    """Yield the settings of sections, or of a union's members, and of the sections inside them."""
    for name in dict.fromkeys(name for section in sections for name in section.model_fields):
        having = tuple(section for section in sections if name in section.model_fields)
        types = [section.model_fields[name].annotation for section in having]
        inner = dict.fromkeys(
            section for annotation in types for section in sections_of(annotation)
        )
        if inner:
            yield from _below(tuple(inner), f"{above}{name}.")
        else:
            yield Setting(f"{above}{name}", having, len(sections))


def default_member(section: str) -> str:
    """Return which member of a union applies where none is chosen."""
    return str(getattr(SageConfig.model_fields[section].default, UNIONS[section]))


def members(section: str) -> dict[str, type[BaseModel]]:
    """Return the members of a union by name; the one for any other name is called ""."""
    tag = UNIONS[section]
    return {
        next(map(str, get_args(kind.model_fields[tag].annotation)), ""): kind
        for kind in sections_at([section])
    }


def member_of(section: str, name: str) -> type[BaseModel]:
    """Return the section that `name` chooses in a union; its default's for an unknown name."""
    union = SageConfig.model_fields[section].annotation
    if isinstance(union, type) and issubclass(union, Extensible) and (kind := in_file(union, name)):
        return kind
    kinds = members(section)
    return kinds.get(name) or kinds.get("") or kinds[default_member(section)]


def own_settings(section: str, name: str) -> set[str]:
    """Return the settings that a member of a union shares with no class that it inherits from."""
    kind = member_of(section, name)
    inherited = {key for base in kind.__bases__ for key in getattr(base, "model_fields", ())}
    return set(kind.model_fields) - inherited


def sections_at(path: Sequence[str]) -> Sequence[type[BaseModel]]:
    """Return the sections at `path`; more than one if it is a union."""
    models: Sequence[type[BaseModel]] = (SageConfig,)
    for part in path:
        inner = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = [model for annotation in inner for model in sections_of(annotation)]
    return models


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a field of this type may hold: none, one, or a union's members."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return list(annotation.members())
    return [model for part in _arguments(annotation) for model in sections_of(part)]


def _parts(annotation: Any) -> set[Any]:
    if inner := _arguments(annotation):
        return {part for argument in inner for part in _parts(argument)}
    return {annotation}


def _arguments(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one that is annotated; none of any other type."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return arguments[:1]
    return arguments if get_origin(annotation) in (Union, UnionType) else ()


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
