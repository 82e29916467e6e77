"""A statement about the method, with the distance between two ways of computing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics.counts import FloatArray

TOLERANCE = 1e-6
"""A statement holds if its error is below it."""

Standing = Literal["as printed", "on a condition", "not as printed", "not in the paper"]
"""How the paper's claim fares: on a condition it holds only where the sentence says."""

Found = tuple[float, Mapping[str, float]]
"""An error and the numbers that the sentence is about."""


class StatementJson(TypedDict):
    """A statement as plain values."""

    name: str
    equation: str
    sentence: str
    error: float
    holds: bool
    standing: Standing
    values: dict[str, float]


@dataclass(frozen=True)
class Statement:
    """A claim about `equation` in one sentence, and the largest error that was found.

    `error` is the largest distance between two independent computations, or, for an inequality,
    by how much it is violated. `values` are the numbers that the sentence is about.
    """

    name: str
    equation: str
    sentence: str
    error: float
    standing: Standing
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """True if the error is below the tolerance; NaN is not."""
        return self.error < TOLERANCE

    def as_json(self) -> StatementJson:
        """Return all of it as plain values."""
        return {
            "name": self.name,
            "equation": self.equation,
            "sentence": self.sentence,
            "error": self.error,
            "holds": self.holds,
            "standing": self.standing,
            "values": dict(self.values),
        }


def statement(
    name: str, equation: str, standing: Standing
) -> Callable[[Callable[[], float | Found]], Callable[[], Statement]]:
    """Make a statement of a function that returns its error, or its error and its values.

    The sentence is the first paragraph of the function's docstring.
    """

    def make(compute: Callable[[], float | Found]) -> Callable[[], Statement]:
        sentence = " ".join((compute.__doc__ or "").partition("\n\n")[0].split())

        @wraps(compute)
        def state() -> Statement:
            found = compute()
            error, values = found if isinstance(found, tuple) else (found, {})
            return Statement(name, equation, sentence, error, standing, values)

        return state

    return make


def distance(found: FloatArray | float, expected: FloatArray | float) -> float:
    """Return the largest absolute difference."""
    return float(np.max(np.abs(np.asarray(found) - np.asarray(expected))))


def violation(smaller: FloatArray | float, larger: FloatArray | float) -> float:
    """Return by how much `smaller` <= `larger` fails at worst; 0 if it holds everywhere."""
    return float(np.max(np.maximum(0.0, np.asarray(smaller) - np.asarray(larger))))
