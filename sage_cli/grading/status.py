"""What grading says of one completion: a status, and with the answer that it is about a grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Status = Literal["right", "wrong", "unparseable", "timeout", "error"]
"""`right` and `wrong` are judgements. `unparseable`: there is no answer between closed tags, it is
empty, or it can't be read. `timeout`: the answer used up its time. `error`: the verifier failed (no
gold, out of memory, a crash)."""

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Grade:
    """A status, and the answer: None where there is none, and where a whole text was searched."""

    status: Status
    extracted: str | None

    @property
    def reward(self) -> float:
        """1 for a right answer, 0 for anything else."""
        return float(self.status == "right")
