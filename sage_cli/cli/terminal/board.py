"""The board of running tasks: a live table in a terminal, plain lines without one."""

from __future__ import annotations

import time

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live as Region
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

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
        self._region.update(_View(status), refresh=True)

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


class _View:
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
    return "" if task.step is None else f"step {task.step}" + (f"/{task.of}" if task.of else "")


def _reward(task: RunningTask) -> str:
    return "" if task.reward is None else f"reward {task.reward:.3f}"
