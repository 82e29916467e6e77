"""Progress in the terminal: bars with rate and time left, without a terminal plain lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID
from rich.progress import Progress as Bars
from rich.status import Status
from rich.table import Column
from rich.text import Text

from sage_cli.cli.console import console
from sage_cli.progress import RunningTask, TaskStatus

PLAIN_LINE_EVERY_S = 20.0
PLAIN_TASKS = 4
"""Running tasks that a plain line names."""
AROUND = 6
"""Lines of the terminal that are kept for other things than running tasks."""

SURE_SHARE = 0.05
"""Share of the work after which a time left is shown: the first steps are slow."""
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
        self._bars: _Bars | None = None
        self._task: TaskID | None = None
        self._told: tuple[object, ...] | None = None
        self._status: Status | None = None
        self._title, self._unit, self._total, self._done = "", "", 0, 0
        self._began_s = self._spoke_s = 0.0
        self._start = 0

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def say(self, text: str) -> None:
        """Print a line that stays above the bar."""
        self._console.print(text, soft_wrap=True)

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Show a spinner during the block; without a terminal print a line if the block takes
        longer than `QUIET_S`. A bar or board replaces it; inside another block nothing is shown."""
        if self._bars is not None or self._status is not None:
            yield
        elif self._console.is_terminal:
            self._status = self._console.status(escape(text))  # a file's name may look like markup
            self._status.start()
            try:
                yield
            finally:
                self._still()
        else:
            late = Timer(QUIET_S, self.say, [f"{escape(text)} ..."])
            late.daemon = True
            late.start()
            try:
                yield
            finally:
                late.cancel()

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
            already = f", {done:,} of them done already" if done else ""
            self.say(f"{title}: {total:,} {unit[:-1] if total == 1 else unit}{already}")
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
                f"{self._title}: {self._done:,}/{self._total:,} {self._unit}  {self._eta()}  "
                f"{shown}"
            )

    def board(self, status: TaskStatus) -> None:
        """Show how far tasks are, in the place of a bar or of what was shown before."""
        if self._task is not None or self._status is not None:
            self.end()
        if not self._console.is_terminal:
            self._tell(status)
            return
        if self._bars is None:
            self._bars = _Bars(self._console, "tasks", auto_refresh=False)
            self._bars.start()
        self._bars.show(status)

    def _tell(self, status: TaskStatus) -> None:
        """Print a line where a task has begun or ended, and one every 20 seconds."""
        names = tuple(task.name for task in status.running)
        told = status.total, status.done, status.failed, status.pruned, names
        if told == self._told and time.monotonic() - self._spoke_s < PLAIN_LINE_EVERY_S:
            return
        self._told, self._spoke_s = told, time.monotonic()
        hidden = len(names) - PLAIN_TASKS
        more = [f"and {hidden} more"] if hidden > 0 else []
        running = "; ".join([*map(_where, status.running[:PLAIN_TASKS]), *more])
        best = f"best {status.best}" if status.best else ""
        left = "" if status.left_s is None else time_left(status.left_s)
        words = filter(None, (_counted(status), best, left, running))
        self._console.print(Text("  ".join(words)), soft_wrap=True)

    def end(self) -> None:
        """Close the bar or board and leave it as it is."""
        self._still()
        if self._bars is not None:
            self._bars.stop()
        self._bars = self._task = None

    def _eta(self) -> str:
        done, total = self._done - self._start, self._total - self._start
        rate = done / max(time.monotonic() - self._began_s, 1e-9)
        if rate <= 0 or done >= total:
            return ""
        left = f", {time_left((total - done) / rate)}" if done >= SURE_SHARE * total else ""
        return f"{_rate(rate)} {self._unit}/s{left}"


def _rate(per_second: float) -> str:
    """Return a rate with three digits at least: `0.0123`, `45.6` or `1,170`."""
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def time_left(seconds: float) -> str:
    """Return an estimate in its largest unit: `about 4 min left`."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"about {seconds / unit:.0f} {name} left"
    return f"about {max(1, round(seconds))} s left"


def _counted(status: TaskStatus) -> str:
    """Return the counts: `1/5 done, 2 running, 1 failed`."""
    rare = {"failed": status.failed, "pruned": status.pruned}
    counts = [f"{status.done}/{status.total} done", f"{len(status.running)} running"]
    return ", ".join([*counts, *(f"{count} {name}" for name, count in rare.items() if count)])


def _where(task: RunningTask) -> str:
    of = f"/{task.of}" if task.of else ""
    return task.name if task.step is None else f"{task.name} at step {task.step}{of}"


@contextmanager
def doing(text: str) -> Iterator[None]:
    """Show what a command does during the block, if it has no other progress."""
    with Live() as live, live.doing(text):
        yield


class _Bars(Bars):
    """A line with bar, count and time left, and the numbers on a line of their own.

    In a narrow terminal the title is cut, and the rate is left out.
    """

    def __init__(self, console: Console, unit: str, *, auto_refresh: bool = True) -> None:
        self._terminal, kept = console, Column(no_wrap=True)
        title, count = _Title(), MofNCompleteColumn(table_column=kept)
        self._narrow = (title, BarColumn(12, table_column=kept), count, _Left(kept))
        self._wide = (title, BarColumn(24, table_column=kept), count, _Rate(unit), _Left(kept))
        super().__init__(
            *self._wide, console=console, speed_estimate_period=PACE_S, auto_refresh=auto_refresh
        )

    def show(self, status: TaskStatus) -> None:
        """Show all tasks as a bar, and below it one for each that runs, as far as there is room."""
        shown = status.running[: max(1, self._terminal.height - AROUND)]
        lines = [_counted(status), *([f"best {status.best}"] if status.best else [])]
        if hidden := len(status.running) - len(shown):
            lines.append(f"and {hidden} more")
        for bar in self.task_ids:
            self.remove_task(bar)
        self.add_task(
            "tasks",
            total=status.total,
            completed=status.ended,
            left_s=status.left_s,
            numbers="\n  ".join(lines),
        )
        for task in shown:
            self.add_task(
                task.name,
                total=task.of or 1,
                completed=task.step or 0,
                left_s=task.left_s,
                numbers="",
            )
        self.refresh()

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
        sure = task.percentage >= 100 * SURE_SHARE
        left_s = task.fields.get("left_s", task.time_remaining if sure else None)
        left_s = None if task.finished else left_s
        return Text("" if left_s is None else time_left(left_s), style="cyan")


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_rate(speed)} {self.unit}/s", style="dim")
