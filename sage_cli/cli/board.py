"""Tasks for people: a live table in a terminal, plain lines now and then without one."""

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
"""Running tasks whose steps a plain line names."""
AROUND = 6
"""Lines of a board that aren't its running tasks', and some of the terminal left free."""


class Board:
    """Shows where tasks stand until it is closed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._region: Region | None = None
        self._last: TaskStatus | None = None
        self._spoke_s = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether it stands in the terminal now."""
        return self._region is not None

    def show(self, status: TaskStatus) -> None:
        """Draw `status` in the place of the last one; without a terminal say what is new."""
        if not self._console.is_terminal:
            self._say(status)
            return
        if self._region is None:
            self._region = Region(console=self._console, auto_refresh=False)
            self._region.start()
        self._region.update(_View(status), refresh=True)

    def close(self) -> None:
        """Leave the last one standing."""
        if self._region is not None:
            self._region.stop()
        self._region = None

    def _say(self, status: TaskStatus) -> None:
        """A line at each change of state, and one every 20 seconds."""
        before = self._last or TaskStatus(status.total)
        names = {cell.name for cell in before.running}
        begun = [cell.name for cell in status.running if cell.name not in names]
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
        rows_of_words = [(_step(cell), _reward(cell), clock(cell.since_s)) for cell in shown]
        widths = [max(map(len, column)) for column in zip(*rows_of_words, strict=True)]
        rows = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for_names = options.max_width - sum(widths) - len(widths)
        rows.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, for_names))
        for width in widths:
            rows.add_column(no_wrap=True, justify="right", min_width=width)
        for cell, words in zip(shown, rows_of_words, strict=True):
            rows.add_row(f" {cell.name}", *words)
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
    counted = {"done": status.done, "running": len(status.running), "failed": status.failed,
               "pruned": status.pruned, "left": status.left}  # fmt: skip
    rare = ("failed", "pruned")
    return ", ".join(f"{n} {name}" for name, n in counted.items() if n or name not in rare)


def _ends(status: TaskStatus) -> tuple[str, ...]:
    """What a plain line says after the counts."""
    best = f"best {status.best}" if status.best else ""
    steps = [f"{cell.name} at {_step(cell)}" for cell in status.running if cell.step is not None]
    more = [f"and {len(steps) - PLAIN_STEPS} more"] if len(steps) > PLAIN_STEPS else []
    at = "; ".join([*steps[:PLAIN_STEPS], *more])
    return tuple(words for words in (best, _left(status), at) if words)


def _left(status: TaskStatus) -> str:
    return "" if status.left_s is None else f"{clock(status.left_s)} left"


def _step(cell: RunningTask) -> str:
    return "" if cell.step is None else f"step {cell.step}" + (f"/{cell.of}" if cell.of else "")


def _reward(cell: RunningTask) -> str:
    return "" if cell.reward is None else f"reward {cell.reward:.3f}"
