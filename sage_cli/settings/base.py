"""The base of every section: unknown keys are errors, values are frozen and numbers finite."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

COSMETIC: dict[str, Any] = {"cosmetic": True}
"""Marks a field that changes no result: `Field(50, ge=1, json_schema_extra=COSMETIC)`."""

WHERE_SET: dict[str, Any] = {"where_set": True}
"""Marks a field that is part of a run's identity only where it differs from its default, so that
runs of before there was such a setting keep theirs."""


class Section(BaseModel):
    """A noun of the schema. A class's defaults are the paper's setting (Tables 7 and 8)."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    @classmethod
    def members(cls) -> tuple[type[Section], ...]:
        """Return the classes that a section of this type may hold; more than one in a union."""
        return (cls,)

    def determinants(self) -> dict[str, Any]:
        """The settings that decide a result, as plain JSON values: all but the cosmetic ones."""
        plain, usual = self.model_dump(mode="json"), usual_where_set(type(self))
        return {
            name: _determinants(getattr(self, name), plain[name])
            for name in _deciding(type(self))
            if name not in usual or getattr(self, name) != usual[name]
        }


def is_cosmetic(section: type[BaseModel], name: str) -> bool:
    """Return True if the schema marks a section's field `name` as changing no result."""
    return _marked(section, name, "cosmetic")


@cache
def _deciding(section: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name in section.model_fields if not is_cosmetic(section, name))


@cache
def usual_where_set(section: type[BaseModel]) -> dict[str, Any]:
    """Return field -> default of those that are part of an identity only where they differ."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in section.model_fields.items()
        if _marked(section, name, "where_set")
    }


def _marked(section: type[BaseModel], name: str, mark: str) -> bool:
    extra = section.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def _determinants(value: Any, plain: Any) -> Any:
    if isinstance(value, Section):
        return value.determinants()
    if isinstance(value, tuple):
        return [_determinants(*pair) for pair in zip(value, plain, strict=True)]
    return plain


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
