"""Progress of works for people: a line as each ends, and the board of those that run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from rich.markup import escape

from sage_cli.executors.failures import Failure
from sage_cli.executors.work import Work
from sage_cli.progress import Progress, RunningTrial, SweepStatus

BOARD_S = 1.0
"""From one look at the running trainings to the next."""


class WorkProgress:
    """Counts the works that were expected, and prints what becomes of them.

    `total` is how many there will be at least, as far as that is known beforehand. `failures` says
    by name why works were given up.
    """

    def __init__(self, progress: Progress, total: int = 0) -> None:
        self._progress, self._total = progress, total
        self._expected: set[str] = set()
        self.done_count = self.failed_count = self.pruned_count = 0
        self.best: str | None = None
        self.failures: dict[str, Failure] = {}
        self._seconds: list[float] = []
        self._shown_s = 0.0

    @property
    def left(self) -> int:
        """How many have no end yet."""
        ended = self.done_count + self.failed_count + self.pruned_count
        return max(0, max(self._total, len(self._expected)) - ended)

    def expect(self, work: Work) -> None:
        """One more work is wanted; what it needs isn't counted."""
        self._expected.add(work.name)

    def done(self, work: Work, result: str = "") -> None:
        """A work's result is there, now or from before; `result` sums it up."""
        self.done_count += 1
        if work.since_s is not None:
            self._seconds.append(time.monotonic() - work.since_s)
        line = f"{work.title}: {result}" if result else work.title
        before = "" if work.since_s is not None else ", found in the store"
        self._progress.say(f"[green]done[/]: {escape(line)}{before}")

    def failed(self, work: Work, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        if not again:
            self.failures[work.name] = why
            self.failed_count += work.name in self._expected
        then = "; trying again" if again else f"; its log: {log}"
        line = escape(f"{work.title}: {why.reason}{then}")
        self._progress.say(f"[red]{why.kind}[/]: {line}")

    def waits(self, work: Work, who: str) -> None:
        """Another process does the work; it goes on here when that one has ended."""
        self._progress.say(f"[yellow]waiting[/]: {escape(f'{work.title}: {who}, is at it')}")

    def pruned(self, work: Work, reason: str, count: int = 1) -> None:
        """A training was ended because it lagged behind, and so `count` works with it."""
        self.pruned_count += count
        self._progress.say(f"[yellow]pruned[/]: {escape(f'{work.title}: {reason}')}")

    def show(self, running: Iterable[Work], places: int) -> None:
        """Show what runs, now and then."""
        if time.monotonic() - self._shown_s < BOARD_S:
            return
        self._shown_s = time.monotonic()
        under_way = tuple(running)
        beside = sum(work.name not in self._expected for work in under_way)
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else None
        status = SweepStatus(
            total=max(self._total, len(self._expected)) + beside,
            done=self.done_count,
            failed=self.failed_count,
            pruned=self.pruned_count,
            running=tuple(map(_running, under_way)),
            best=self.best,
            left_s=None if mean is None else mean * self.left / max(1, min(places, self.left)),
        )
        self._progress.board(status)

    def close(self) -> None:
        """Leave the board as it is."""
        self._progress.end()


def _running(work: Work) -> RunningTrial:
    begun = work.run is not None and work.started != work.began
    last = (work.run.metrics.read() or [{}])[-1] if work.run and begun else {}
    age_s = time.monotonic() - (work.since_s or 0.0)
    return RunningTrial(work.title, last.get("step"), last.get("of"), last.get("reward"), age_s)
