"""Two JSON values side by side: each place in which they differ, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Place = tuple[str, str, str]
"""A path, and the two values in words."""
LACKING = "–"
NUMBERS = ("seed", "temperature")
"""Keys whose numbers name a row, as texts do."""
MOST = 6
"""Words that name a row."""


@dataclass(frozen=True)
class Tolerance:
    """The difference of two numbers that counts for nothing."""

    absolute: float
    relative: float

    def equal(self, a: float, b: float) -> bool:
        """Return True if two numbers are the same but for rounding."""
        return math.isclose(a, b, abs_tol=self.absolute, rel_tol=self.relative)


def unequal(given: Any, computed: Any, tolerance: Tolerance) -> tuple[int, list[Place]]:
    """Return the number of compared values, and where `given` differs from `computed`."""
    return _unequal(given, computed, tolerance, "")


def _unequal(given: Any, computed: Any, tolerance: Tolerance, at: str) -> tuple[int, list[Place]]:
    if isinstance(given, Mapping) and isinstance(computed, Mapping):
        keys = list(dict.fromkeys((*given, *computed)))
        return _all(
            [(given.get(key), computed.get(key), f"{at}.{key}" if at else key) for key in keys],
            tolerance,
        )
    if _is_list(given) and _is_list(computed):
        if len(given) != len(computed):
            return 1, [(at, f"{len(given)} entries", f"{len(computed)} entries")]
        pairs = zip(given, computed, strict=True)
        named = [(a, b, f"{at}[{_name(b, place)}]") for place, (a, b) in enumerate(pairs)]
        return _all(named, tolerance)
    if _is_number(given) and _is_number(computed):
        same = tolerance.equal(given, computed)
    else:
        same = given == computed
    return 1, [] if same else [(at, _words(given), _words(computed))]


def _all(pairs: Sequence[tuple[Any, Any, str]], tolerance: Tolerance) -> tuple[int, list[Place]]:
    found = [_unequal(*pair[:2], tolerance, pair[2]) for pair in pairs]
    return sum(count for count, _ in found), [place for _, places in found for place in places]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(value: Any, place: int) -> str:
    """Return what names a row, its texts, seed and temperature, or else its place."""
    if not isinstance(value, Mapping):
        return str(place)
    named = [
        f"{key} {inner}" if key in NUMBERS else inner
        for key, inner in value.items()
        if isinstance(inner, str) or key in NUMBERS
    ]
    return ", ".join(named[:MOST]) or str(place)


def _words(value: Any) -> str:
    return LACKING if value is None else str(value)[:60]
