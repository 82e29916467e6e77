"""Progress for people: a bar with rate and ETA; plain lines now and then without a terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from sage_cli.cli.console import console

PLAIN_LINE_EVERY_S = 20.0


class Live:
    """The rich counterpart of `workflows.progress.Progress`; use it as a context manager."""

    def __init__(self, target: Console = console) -> None:
        self._console = target
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._title, self._unit, self._total, self._done = "", "", 0, 0
        self._began_s = self._spoke_s = 0.0
        self._start = 0

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def say(self, text: str) -> None:
        """A line that stays above the bar."""
        self._console.print(text, soft_wrap=True)

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Start a bar; without a terminal, say what begins."""
        self.end()
        self._title, self._unit, self._total, self._done = title, unit, total, done
        self._start, self._began_s = done, time.monotonic()
        self._spoke_s = self._began_s
        if not self._console.is_terminal:
            already = f", {done} done before" if done else ""
            self.say(f"{title}: {total} {unit}{already}")
            return
        self._bars = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Rate(unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[cyan]{task.fields[numbers]}"),
            console=self._console,
            transient=False,
        )
        self._bars.start()
        self._task = self._bars.add_task(title, total=total, completed=done, numbers="")

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Go on by `amount` and show `numbers`."""
        self._done += amount
        shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, advance=amount, numbers=shown)
        elif time.monotonic() - self._spoke_s > PLAIN_LINE_EVERY_S:
            self._spoke_s = time.monotonic()
            self.say(
                f"{self._title}: {self._done}/{self._total} {self._unit}  {self._eta()}  {shown}"
            )

    def end(self) -> None:
        """Close the bar and leave it standing."""
        if self._bars is not None:
            self._bars.stop()
        self._bars = self._task = None

    def _eta(self) -> str:
        rate = (self._done - self._start) / max(time.monotonic() - self._began_s, 1e-9)
        if rate <= 0:
            return ""
        return f"{rate:.3g} {self._unit}/s, {(self._total - self._done) / rate:.0f} s left"


class _Rate(ProgressColumn):
    """Units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} {self.unit}/s", style="dim")
