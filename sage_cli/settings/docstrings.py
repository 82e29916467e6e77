"""The strings below the settings of a section, which say what they mean."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


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
