r"""Rules that read a row's gold: from a column of its own, from \boxed{}, after ####, ..."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from sage_cli.latex_boxed import last_boxed

GoldRule = Callable[[str], str | None]


def as_text(value: Any) -> str:
    """A column's value as text; AMC23 stores floats, and 27.0 reads as 27."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()


def whole(text: str) -> str | None:
    """The column holds the gold and nothing else."""
    return text or None


def integer(text: str) -> str | None:
    """An integer without the leading zeros that AIME prints (033)."""
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else text or None


def in_last_box(text: str) -> str | None:
    r"""The contents of the last closed \boxed{...}; None without one, or where it is empty."""
    return (last_boxed(text) or "").strip() or None


def after_hashes(text: str) -> str | None:
    """The text after the last ####, thousands separators removed (GSM8K)."""
    _, marker, answer = text.rpartition("####")
    return answer.strip().replace(",", "") or None if marker else None


def before_unit(text: str) -> str | None:
    """The text before the unit in parentheses: `9 (apples)` -> `9` (ASDiv)."""
    return re.sub(r"\s*\([^()]*\)\s*$", "", text) or None


def is_number(text: str) -> bool:
    """Return True if `text` is a finite decimal number, as 12, -0.5 or 1e5."""
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
