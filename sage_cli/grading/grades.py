"""A grade, and the identity of the grader that gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Status = Literal["right", "wrong", "unparseable", "timeout", "error"]
"""`unparseable`: the answer is missing, empty or unreadable. `timeout`: its time is used up.
`error`: the verifier failed (no gold, out of memory, a crash)."""
STATUSES: tuple[Status, ...] = get_args(Status)

GRADING_VERSION = 3
"""Raised when a gold and a completion may get another grade than before: by a changed rule of
extraction, normalisation or judgement, or by a new Math-Verify. Older stored grades are unused."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A status, and the answer: None where there is none, and where a whole text was searched."""

    status: Status
    extracted: str | None

    @property
    def reward(self) -> float:
        """1 for a right answer, 0 for anything else."""
        return float(self.status == "right")


@dataclass(frozen=True, kw_only=True)
class GraderIdentity:
    """Graders with the same identity give the same grades, timeouts and errors aside.

    `version` is GRADING_VERSION and, for a plug-in judge, its package with its version. The number
    of workers is no part of it.
    """

    mode: str
    judge: str
    tolerance: float | None
    answer_open: str
    answer_close: str
    extract: str
    timeout_s: int
    memory_mb: int
    version: str

    def mapping(self) -> dict[str, Any]:
        """The identity as plain JSON values, to store beside grades and to hash."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, stored: Mapping[str, Any]) -> GraderIdentity:
        """The identity that was stored as `mapping()`; unknown settings in it are ignored.

        Raises KeyError when one is missing.
        """
        return cls(**{field.name: stored[field.name] for field in fields(cls)})
