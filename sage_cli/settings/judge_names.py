"""Names of judges, modes and extractions, and golds of which any is right; free of pydantic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, get_args

from sage_cli.json_value import json_value

GradingMode = Literal["strict", "math-verify"]
"""How mathematics is judged: by sage's own rules, or by the field's plain recipe."""

Extraction = Literal["tags", "boxed", "tags-then-boxed", "text"]
"""Where the answer stands: between the last closed tags, in the last closed \\boxed{}, there where
there are no such tags; or Math-Verify looks for it in the whole completion."""

EXTRACTIONS: tuple[Extraction, ...] = get_args(Extraction)

Unfinished = Literal["wrong", "graded"]
"""What a completion is that ends inside a thought."""

MODES: tuple[GradingMode, ...] = get_args(GradingMode)

BUILT_IN_JUDGES = ("math", "roles")
"""Kinds of answers that sage judges itself: mathematics; who has which role."""

IMPORTED_JUDGE = "imported"
"""The verdict that came with an imported sample, in place of a judge."""

_ANY_OF = "any of "


def any_of(golds: Sequence[str]) -> str:
    """Return one gold for several of which any is right, as `any of ["7", "seven"]`."""
    distinct = list(dict.fromkeys(golds))
    return distinct[0] if len(distinct) == 1 else _ANY_OF + json.dumps(distinct, ensure_ascii=False)


def each_gold(gold: str) -> tuple[str, ...]:
    """Return the golds that `any_of` put together; any other gold alone."""
    if not gold.startswith(f'{_ANY_OF}["'):
        return (gold,)
    try:
        return tuple(map(str, json_value(gold.removeprefix(_ANY_OF))))
    except ValueError:
        return (gold,)
