"""Rules by which a column's text becomes a gold."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite

from sage_cli.solution_text import last_boxed

GoldRule = Callable[[str], str | None]


def whole(text: str) -> str | None:
    """Return the whole column as the gold; None if it is empty."""
    return text or None


def integer(text: str) -> str | None:
    """Return an integer without the leading zeros that AIME prints (033)."""
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else text or None


def in_last_box(text: str) -> str | None:
    r"""Return the contents of the last \boxed{...}; None without one or if it is empty."""
    return (last_boxed(text) or "").strip() or None


def after_hashes(text: str) -> str | None:
    """Return the text after the last ####, thousands separators removed (GSM8K)."""
    _, marker, answer = text.rpartition("####")
    return answer.strip().replace(",", "") or None if marker else None


def before_unit(text: str) -> str | None:
    """Return the text before the unit in parentheses: `9 (apples)` -> `9` (ASDiv)."""
    return re.sub(r"\s*\([^()]*\)\s*$", "", text) or None


def is_number(text: str) -> bool:
    """Return True if `text` is a finite decimal number, as 12, -0.5 or 1e5."""
    try:
        return isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
