"""A judge: times of day, in which 9:05, 09:05 and 9:05 am are one answer."""

import re

from sage_cli.grading.grades import Status
from sage_cli.grading.judges import Judge

TIME = re.compile(r"\s*(\d{1,2}):(\d\d)\s*([ap]m)?\s*", re.IGNORECASE)


class Clock(Judge):
    """Compares minutes since midnight; a tolerance means nothing here."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:
        """Always known: reading a time takes microseconds."""
        given = minutes(answer)
        if given is None:
            return "unparseable"
        return "right" if given == minutes(gold) else "wrong"

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:
        """The same."""
        return self.quick(gold, answer, tolerance) or "wrong"


def minutes(text: str) -> int | None:
    """Minutes since midnight; None for what is no time."""
    if not (found := TIME.fullmatch(text)):
        return None
    hour, minute, half = int(found[1]), int(found[2]), (found[3] or "").lower()
    if half:
        hour = hour % 12 + 12 * (half == "pm") if 1 <= hour <= 12 else 24
    return 60 * hour + minute if hour < 24 and minute < 60 else None
