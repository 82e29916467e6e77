"""Names of judges, modes and extractions; free of pydantic."""

from __future__ import annotations

from typing import Literal, get_args

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
