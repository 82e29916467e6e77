"""A grade, and the identity of the grader that gave it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from sage_cli.settings.judge_names import IMPORTED_JUDGE, Extraction
from sage_cli.solution_text import last_boxes

Status = Literal["right", "wrong", "unparseable", "timeout", "error"]
"""`unparseable`: the answer is missing, empty or unreadable. `timeout`: its time is used up.
`error`: the verifier failed (no gold, out of memory, a crash)."""
STATUSES: tuple[Status, ...] = get_args(Status)

Judged = Status | float
"""What a judge says of an answer: a status, or the share in [0, 1] of it that is correct."""

GRADING_VERSION = 7
"""Raised when a gold and a completion may get another grade than before: by a changed rule of
extraction, normalisation or judgement, or by a new Math-Verify. Older stored grades are unused."""


def status_in_words(status: str) -> str:
    """Return a status as it is printed: `right`, which is what is stored, is called `correct`."""
    return "correct" if status == "right" else status


def status_of(judged: Judged) -> Status:
    """Return the status of what a judge gave; a share is `right` if it is 1, else `wrong`."""
    if isinstance(judged, str):
        return judged
    return "right" if judged == 1 else "wrong"


@dataclass(frozen=True, slots=True)
class Grade:
    """A status, and the answer: None where there is none, and where a whole text was searched.

    `share` is what a judge gave instead of correct or wrong: the answer is correct where it is 1.
    `reason` says why a status is neither correct nor wrong.
    """

    status: Status
    extracted: str | None
    share: float | None = None
    reason: str | None = field(default=None, compare=False)

    @classmethod
    def from_judged(cls, judged: Judged, extracted: str | None) -> Grade:
        """Return the grade of an answer by what a judge said of it."""
        share = None if isinstance(judged, str) else float(judged)
        return cls(status_of(judged), extracted, share)

    @property
    def reward(self) -> float:
        """The share that is correct; without one 1 for a correct answer, 0 for anything else."""
        return float(self.status == "right") if self.share is None else self.share


@dataclass(frozen=True, kw_only=True)
class GraderIdentity:
    """Graders with the same identity give the same grades, timeouts and errors aside.

    `version` is GRADING_VERSION and, for a plug-in judge, its package with its version. The number
    of workers is not part of it.
    """

    mode: str
    judge: str
    tolerance: float | None
    answer_open: str
    answer_close: str
    extract: str
    unfinished: str
    timeout_s: int
    memory_mb: int
    version: str

    def mapping(self) -> dict[str, Any]:
        """Return the identity as plain JSON values, to store beside grades and to hash.

        Nothing decides imported verdicts but that they are imported.
        """
        return {"judge": IMPORTED_JUDGE} if self.judge == IMPORTED_JUDGE else asdict(self)


@dataclass(frozen=True)
class AnswerTags:
    """The tags that enclose the final answer."""

    open: str = "<SOLUTION>"
    close: str = "</SOLUTION>"


def extract(completion: str, tags: AnswerTags, place: Extraction = "tags") -> str | None:
    r"""Return the answer that stands at `place`, None where there is none; linear in the length.

    `tags`: in the last closed pair. `boxed`: in the last \boxed{}, and in those that "and", "or"
    or a comma joins to it. `tags-then-boxed`: in the tags, or in the box where no pair is
    closed or the last one is blank. `text`: the whole completion.
    """
    if place == "text":
        return completion
    tagged = None if place == "boxed" else _last_tagged(completion, tags)
    if place == "tags" or (tagged and not tagged.isspace()):
        return tagged
    boxed = last_boxes(completion)
    return tagged if boxed is None else boxed


def answer_begin(text: str, tags: AnswerTags) -> int | None:
    """Return where the answer begins in the last closed pair of tags; None without one."""
    last_close = text.rfind(tags.close)
    opened = text.rfind(tags.open, 0, max(last_close, 0))
    begin = opened + len(tags.open)
    return begin if opened >= 0 and text.find(tags.close, begin) >= 0 else None


def _last_tagged(text: str, tags: AnswerTags) -> str | None:
    begin = answer_begin(text, tags)
    # closing tags may follow each other: the answer ends at the first of them
    return None if begin is None else text[begin : text.find(tags.close, begin)]
