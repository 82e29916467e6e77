"""Who graded: everything that decides a grade beside the gold and the completion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

GRADING_VERSION = 3
"""Raised when a gold and a completion may get another grade than before: by a rule of extraction,
normalisation or judgement that changes, or a new version of Math-Verify. Stored grades of another
version are not used again."""


def grading_version(package: str | None) -> str:
    """GRADING_VERSION, and behind it the package of a plug-in that judges."""
    return f"{GRADING_VERSION}, {package}" if package else str(GRADING_VERSION)


@dataclass(frozen=True, kw_only=True)
class GraderIdentity:
    """Graders with the same identity give the same grades, timeouts and errors aside.

    `version` is GRADING_VERSION and, where a plug-in judges, its package with its version. How
    many workers there are is no part of it.
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
        """The identity that was stored as `mapping()`; settings that it doesn't know are ignored.

        Raises KeyError when one is missing.
        """
        return cls(**{field.name: stored[field.name] for field in fields(cls)})
