"""A statement about the method, with how far two ways of computing it are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics.counts import FloatArray

TOLERANCE = 1e-6
"""A statement whose error is not below it doesn't hold."""

Standing = Literal["as printed", "on a condition", "not as printed", "not in the paper"]
"""What became of the paper's claim: on a condition it holds only where the sentence says."""


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
    """What is claimed of `equation`, in one sentence, and the largest error that was found.

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
        """Whether the error is below the tolerance; NaN is not."""
        return self.error < TOLERANCE

    def as_json(self) -> StatementJson:
        """All of it as plain values."""
        return {
            "name": self.name,
            "equation": self.equation,
            "sentence": self.sentence,
            "error": self.error,
            "holds": self.holds,
            "standing": self.standing,
            "values": dict(self.values),
        }


def distance(found: FloatArray | float, expected: FloatArray | float) -> float:
    """The largest absolute difference."""
    return float(np.max(np.abs(np.asarray(found) - np.asarray(expected))))


def violation(smaller: FloatArray | float, larger: FloatArray | float) -> float:
    """By how much `smaller` <= `larger` fails at worst; 0 where it holds everywhere."""
    return float(np.max(np.maximum(0.0, np.asarray(smaller) - np.asarray(larger))))
