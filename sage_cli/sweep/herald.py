"""What a driver tells: lines as things happen, the board of what runs, and the sweep's state."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape

from sage_cli.progress import Progress, RunningCell, SweepStatus
from sage_cli.sweep.desk import Desk
from sage_cli.sweep.failures import Failure
from sage_cli.sweep.work import Work

BOARD_S = 1.0
"""From one look at the running trainings to the next."""


class Herald:
    """Counts trainings, and says what becomes of them. `facts` is what state.json begins with."""

    def __init__(
        self,
        progress: Progress,
        desk: Desk,
        objectives: Sequence[str],
        facts: Mapping[str, Any],
        total: int | None,
    ) -> None:
        self._progress, self._desk, self._objectives = progress, desk, tuple(objectives)
        self._facts, self._total = dict(facts), total
        self._expected = self._done = self._failed = self._pruned = 0
        self._best: tuple[float, str] | None = None
        self._seconds: list[float] = []
        self._shown_s = 0.0
        self._driver = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}

    def expect(self) -> None:
        """One more training is wanted."""
        self._expected += 1

    def done(self, work: Work, values: Sequence[float]) -> None:
        """A training is finished and measured, now or before."""
        self._done += 1
        if work.since_s:
            self._seconds.append(time.monotonic() - work.since_s)
        scores = ", ".join(f"{n} {v:.3f}" for n, v in zip(self._objectives, values, strict=True))
        before = "" if work.since_s else " (in the store)"
        self._progress.say(f"[green]done[/]: {escape(work.title)}: {scores}{before}")
        if self._best is None or values[0] > self._best[0]:
            self._best = (values[0], f"{work.title}: {scores}")
        self._keep()

    def failed(self, work: Work, why: Failure, *, again: bool) -> None:
        """A task left no result."""
        self._failed += not again and work.training is not None
        then = "; trying again" if again else f"; log: {self._desk.log(work.name)}"
        what = f"[red]{why.kind}[/]: {escape(work.title)}: {escape(why.reason)}{escape(then)}"
        self._progress.say(what)
        self._keep()

    def pruned(self, work: Work, reason: str) -> None:
        """A training was ended because it lagged behind."""
        self._pruned += 1
        self._progress.say(f"[yellow]pruned[/]: {escape(work.title)}: {escape(reason)}")
        self._keep()

    def show(self, running: Iterable[Work], places: int) -> None:
        """Show where the sweep stands, now and then."""
        if time.monotonic() - self._shown_s < BOARD_S:
            return
        self._shown_s = time.monotonic()
        cells = tuple(map(_running, running))
        total = max(self._total or 0, self._expected)
        ended = self._done + self._failed + self._pruned
        left = max(0, total - ended)
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else None
        status = SweepStatus(
            total=total,
            done=self._done,
            failed=self._failed,
            pruned=self._pruned,
            running=cells,
            best=self._best[1] if self._best else None,
            left_s=mean * left / max(1, min(places, left)) if mean is not None else None,
        )
        self._progress.board(status)

    def close(self) -> None:
        """Say that nobody drives the sweep any more."""
        self._progress.end()
        self._driver = {}
        self._keep()

    def _keep(self) -> None:
        counts = {"done": self._done, "failed": self._failed, "pruned": self._pruned}
        left = max(self._total or 0, self._expected) - sum(counts.values())
        self._desk.write_state(
            **self._facts,
            cells={**counts, "left": max(0, left)},
            best=self._best[1] if self._best else None,
            driver=self._driver or None,
        )


def _running(work: Work) -> RunningCell:
    last = (work.run.metrics.read() or [{}])[-1] if work.run and work.started != work.began else {}
    return RunningCell(
        work.title, last.get("step"), last.get("of"), last.get("reward"),
        time.monotonic() - work.since_s,
    )  # fmt: skip
