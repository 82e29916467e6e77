"""Progress in the terminal: a bar with rate and time left, and a board of running tasks.

Without a terminal both are plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live as Region
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
)
from rich.progress import Progress as Bars
from rich.progress_bar import ProgressBar
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from sage_cli.cli.console import console
from sage_cli.progress import RunningTask, TaskStatus

PLAIN_LINE_EVERY_S = 20.0
PLAIN_STEPS = 4
"""Running tasks whose steps a plain line shows."""
AROUND = 6
"""Lines of the terminal that are kept for other things than running tasks."""


class Board:
    """Shows how far tasks are, until it is closed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._region: Region | None = None
        self._last: TaskStatus | None = None
        self._spoke_s = 0.0

    @property
    def is_shown(self) -> bool:
        """Return True if it is shown in the terminal now."""
        return self._region is not None

    def show(self, status: TaskStatus) -> None:
        """Draw `status` in the place of the last one; without a terminal print what is new."""
        if not self._console.is_terminal:
            self._say(status)
            return
        if self._region is None:
            self._region = Region(console=self._console, auto_refresh=False)
            self._region.start()
        self._region.update(_BoardView(status), refresh=True)

    def close(self) -> None:
        """Leave the last status as it is."""
        if self._region is not None:
            self._region.stop()
        self._region = None

    def _say(self, status: TaskStatus) -> None:
        """A line at each change of state, and one every 20 seconds."""
        before = self._last or TaskStatus(status.total)
        names = {task.name for task in before.running}
        begun = [task.name for task in status.running if task.name not in names]
        for name in begun:
            self._line(f"begun: {name}")
        due = time.monotonic() - self._spoke_s >= PLAIN_LINE_EVERY_S
        if self._last is None or begun or _counts(before) != _counts(status) or due:
            self._line("  ".join((_sentence(status), *_ends(status))))
            self._spoke_s = time.monotonic()
        self._last = status

    def _line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class _BoardView:
    """A status drawn for the terminal as wide and high as it is now."""

    def __init__(self, status: TaskStatus) -> None:
        self._status = status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        status = self._status
        head = Table.grid(padding=(0, 2), pad_edge=False)
        head.add_row(
            Text("tasks", "bold"),
            ProgressBar(status.total, status.ended, width=min(40, options.max_width // 3)),
            Text(f"{status.ended}/{status.total}", no_wrap=True),
            Text(_left(status), "cyan", no_wrap=True),
        )
        shown = status.running[: max(1, console.height - AROUND)]
        rows_of_words = [(_step(task), _reward(task), clock(task.since_s)) for task in shown]
        widths = [max(map(len, column)) for column in zip(*rows_of_words, strict=True)]
        rows = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for_names = options.max_width - sum(widths) - len(widths)
        rows.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, for_names))
        for width in widths:
            rows.add_column(no_wrap=True, justify="right", min_width=width)
        for task, words in zip(shown, rows_of_words, strict=True):
            rows.add_row(f" {task.name}", *words)
        lines: list[Table | Text] = [head, Text(_sentence(status), no_wrap=True)]
        lines += [rows] if shown else []
        if hidden := len(status.running) - len(shown):
            lines.append(Text(f"  and {hidden} more", "dim"))
        if status.best:
            lines.append(Text(f"best {status.best}", "green", no_wrap=True, overflow="ellipsis"))
        yield Group(*lines)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _counts(status: TaskStatus) -> tuple[int, ...]:
    return status.total, status.done, status.failed, status.pruned, len(status.running)


def _sentence(status: TaskStatus) -> str:
    """The counts: `1/5 done, 2 running, 1 failed`."""
    rare = {"failed": status.failed, "pruned": status.pruned}
    counts = [f"{status.done}/{status.total} done", f"{len(status.running)} running"]
    return ", ".join([*counts, *(f"{count} {name}" for name, count in rare.items() if count)])


def _ends(status: TaskStatus) -> tuple[str, ...]:
    """Return the end of a plain line: the best trial, time left, steps."""
    best = f"best {status.best}" if status.best else ""
    steps = [f"{task.name} at {_step(task)}" for task in status.running if task.step is not None]
    more = [f"and {len(steps) - PLAIN_STEPS} more"] if len(steps) > PLAIN_STEPS else []
    at = "; ".join([*steps[:PLAIN_STEPS], *more])
    return tuple(words for words in (best, _left(status), at) if words)


def _left(status: TaskStatus) -> str:
    return "" if status.left_s is None else time_left(status.left_s)


def time_left(seconds: float) -> str:
    """An estimate in its largest unit: `about 4 min left`."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"about {seconds / unit:.0f} {name} left"
    return f"about {max(1, round(seconds))} s left"


def _step(task: RunningTask) -> str:
    unknown = task.left_s is None or task.step == task.of  # what follows the steps is not known
    left = "" if unknown else f", {time_left(task.left_s or 0.0)}"
    of = f"/{task.of}" if task.of else ""
    return "" if task.step is None else f"step {task.step}{of}{left}"


def _reward(task: RunningTask) -> str:
    return "" if task.reward is None else f"reward {task.reward:.3f}"


QUIET_S = 1.5
"""Longest silence if there is no terminal."""
PACE_S = 300.0
"""The last seconds of a bar by which its time left is told: some steps take a minute."""
WIDE = 100
"""Columns that have room for everything."""


class Live:
    """`sage_cli.progress.Progress` on a rich console; use it as a context manager."""

    def __init__(self, target: Console = console) -> None:
        self._console = target
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._board = Board(target)
        self._status: Status | None = None
        self._doing = ""
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
        """Print a line that stays above the bar."""
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Show a spinner during the block; without a terminal print a line if the block takes
        longer than `QUIET_S`. A bar or board replaces it."""
        text = escape(text)  # a file's name may look like markup
        if self._bars is not None or self._board.is_shown:
            yield
        elif self._console.is_terminal:
            with self._moving(text):
                yield
        else:
            late = Timer(QUIET_S, self.say, [f"{text} ..."])
            late.daemon = True
            late.start()
            try:
                yield
            finally:
                late.cancel()

    @contextmanager
    def _moving(self, text: str) -> Iterator[None]:
        """Show a spinner, in the place of an outer one; it ends when a bar starts."""
        outer, before = self._status, self._doing
        if outer is None:
            self._status = self._console.status(text)
            self._status.start()
        else:
            outer.update(text)
        self._doing = text
        try:
            yield
        finally:
            self._doing = before
            if outer is None:
                self._still()
            elif self._status is not None:
                outer.update(before)

    def _still(self) -> None:
        if self._status is not None:
            self._status.stop()
        self._status = None

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Start a bar; without a terminal, print its title."""
        self.end()
        self._title, self._unit, self._total, self._done = title, unit, total, done
        self._start, self._began_s = done, time.monotonic()
        self._spoke_s = self._began_s
        if not self._console.is_terminal:
            already = f", {done} done before" if done else ""
            self.say(f"{title}: {total} {unit}{already}")
            return
        self._bars = _Bars(self._console, unit)
        self._bars.start()
        self._task = self._bars.add_task(title, total=total, completed=done, numbers="")

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Advance by `amount` and show `numbers`."""
        self._done += amount
        shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, advance=amount, numbers=shown)
        elif time.monotonic() - self._spoke_s > PLAIN_LINE_EVERY_S:
            self._spoke_s = time.monotonic()
            self.say(
                f"{self._title}: {self._done}/{self._total} {self._unit}  {self._eta()}  {shown}"
            )

    def board(self, status: TaskStatus) -> None:
        """Show how far tasks are, in the place of a bar or of what was shown before."""
        if self._bars is not None or self._status is not None:
            self.end()
        self._board.show(status)

    def end(self) -> None:
        """Close the bar or board and leave it as it is."""
        self._still()
        self._board.close()
        if self._bars is not None:
            self._bars.stop()
        self._bars = self._task = None

    def _eta(self) -> str:
        rate = (self._done - self._start) / max(time.monotonic() - self._began_s, 1e-9)
        if rate <= 0 or self._done >= self._total:
            return ""
        return f"{rate:.3g} {self._unit}/s, {time_left((self._total - self._done) / rate)}"


@contextmanager
def doing(text: str) -> Iterator[None]:
    """Show what a command does during the block, if it has no other progress."""
    with Live() as live, live.doing(text):
        yield


class _Bars(Bars):
    """A line with bar, count and time left, and the numbers on a line of their own.

    In a narrow terminal the title is cut, and the rate is left out.
    """

    def __init__(self, console: Console, unit: str) -> None:
        self._terminal, kept = console, Column(no_wrap=True)
        title, count = _Title(), MofNCompleteColumn(table_column=kept)
        self._narrow = (title, BarColumn(12, table_column=kept), count, _Left(kept))
        self._wide = (title, BarColumn(24, table_column=kept), count, _Rate(unit), _Left(kept))
        super().__init__(*self._wide, console=console, speed_estimate_period=PACE_S)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The lines for the terminal's present width."""
        self.columns = self._wide if self._terminal.width >= WIDE else self._narrow
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if numbers := task.fields["numbers"]:
                yield Text(f"  {numbers}", "cyan", no_wrap=True, overflow="ellipsis")


class _Title(ProgressColumn):
    """The bar's title on one line, cut if there is no room."""

    def render(self, task: Task) -> Text:
        return Text(task.description, "bold", no_wrap=True, overflow="ellipsis")


class _Left(ProgressColumn):
    """The time left, with the word."""

    def render(self, task: Task) -> Text:
        left_s = None if task.finished else task.time_remaining
        return Text("" if left_s is None else time_left(left_s), style="cyan")


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} {self.unit}/s", style="dim")
