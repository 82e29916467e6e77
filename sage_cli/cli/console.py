"""The one console: tables, reports and plans for people, one JSON object for programs.

Text from models, servers and files is made safe for a terminal: no control sequences. Progress is
bars with rate and time left, of a task or of all that run; without a terminal plain lines.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.progress import RunningTask, TaskStatus
from sage_cli.settings.passwords import without_passwords
from sage_cli.store.files import json_text

if TYPE_CHECKING:
    from sage_cli.models.stages import Described
    from sage_cli.reports.document import Report
    from sage_cli.store.run import Run

FIELD_FLAGS = {
    "rl": "data.rl",
    "doctor": "data.rl",
    "sweep": "data.rl",
    "show": "evaluation",
    "overlap": "evaluation",
}
"""Commands with `--question-field` and `--gold-field`, and the section whose `fields` they set."""
_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what reverses the order of letters
    "\ud800-\udfff]"  # half a character, which no terminal takes
)


def visible(text: str) -> str:
    """Return `text` with control characters as Python writes them: an escape becomes \\x1b.

    Newlines and tabs stay. So a completion can't write to the clipboard, move the cursor, or show
    its letters in another order.
    """
    return _COMMANDS.sub(_escaped, text)


def visible_json(text: str) -> str:
    """Return JSON in which control characters are escapes that mean the same to who reads it."""
    return _COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


class SafeConsole(Console):
    """A console that passes only its own control sequences to the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments with control characters escaped."""
        for segment in super().render(renderable, options):
            if segment.control or not _COMMANDS.search(segment.text):
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


class SafeFormatter(logging.Formatter):
    """A formatter of log lines that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line with control characters escaped."""
        return visible(super().format(record))


console = SafeConsole(highlight=False)
"""The console for people. With `--json` it writes to stderr, so that stdout has JSON only."""


def name_column(title: str, names: Iterable[str]) -> Column:
    """Return a column as wide as its longest name: a truncated name is of no use."""
    return Column(title, no_wrap=True, min_width=max(map(len, names), default=0))


_answers: list[TextIO] = []
"""The stream of the object while a `--json` command runs; removed once it is written."""


def wants_json(words: Sequence[str]) -> bool:
    """Return True if a command line has `--json`."""
    words = list(words)
    return "--json" in words[: words.index("--") if "--" in words else None]


@contextmanager
def one_object() -> Iterator[None]:
    """Keep stdout for the one object of a `--json` command.

    All other output, of Python or of libraries below it, goes to stderr.
    """
    with _kept(sys.stdout) as answer, redirect_stdout(sys.stderr):
        console.stderr = True
        _answers.append(answer)
        try:
            yield
        finally:
            console.stderr = False
            _answers.clear()


def emit(value: Any) -> None:
    """Print the object of a `--json` command."""
    answer = _answers.pop() if _answers else sys.stdout
    answer.write(visible_json(json_text(value)))
    answer.flush()


def emit_error(cause: str, next_step: str | None, exit_code: int) -> None:
    """Print the error object of a `--json` command; nothing without `--json`."""
    if _answers:
        emit({"error": {"cause": cause, "next_step": next_step, "exit_code": exit_code}})


def in_flags(next_step: str | None, command: str | None) -> str | None:
    """Return advice in the flags of the command that was typed, where it has some for columns."""
    section = FIELD_FLAGS.get(command or "")
    for key in ("question", "gold"):
        if section and next_step:
            next_step = next_step.replace(f"--set {section}.fields.{key}=", f"--{key}-field ")
    return next_step


_LONG_WORD = re.compile(r"\S{401,}")
"""What no one wants to read whole: a key of a file may have millions of letters."""


def _in_letters(text: str) -> str:
    """Return a message without passwords, and with the beginnings of endless words alone."""
    # passwords first: half an address isn't recognised as one
    return _LONG_WORD.sub(lambda word: f"{word[0][:200]}...", without_passwords(text))


def show_error(error: SageError, exit_code: int) -> None:
    """Print a panel with cause and next step on stderr; with `--json` also the error object."""
    cause, step = (_in_letters(text) for text in (error.cause, error.next_step or ""))
    text = Text(visible(cause))
    if step:
        text.append(f"\n\n{visible(step)}", style="cyan")
    panel = Panel(text, title="error", title_align="left", border_style="red")
    SafeConsole(stderr=True).print(panel)
    emit_error(cause, step or None, exit_code)


@contextmanager
def _kept(out: TextIO) -> Iterator[TextIO]:
    """Yield a stream to the target of `out`, whose file descriptor writes to stderr meanwhile."""
    out.flush()
    try:
        descriptor, errors = out.fileno(), sys.stderr.fileno()
    except OSError:  # not a file, as in a test or inside another program
        yield out
        return
    own = os.dup(descriptor)
    os.dup2(errors, descriptor)
    # a lone surrogate becomes \\udc80, its escape in JSON
    answer = os.fdopen(os.dup(own), "w", encoding="utf-8", errors="backslashreplace")
    try:
        yield answer
    finally:
        with suppress(BrokenPipeError):  # the reader has closed its end
            answer.close()
        out.flush()
        os.dup2(own, descriptor)
        os.close(own)


ShowNotes = Annotated[
    bool,
    typer.Option(
        "--notes",
        help="Print all notes and tables of the report, not only the most important ones.",
    ),
]


def show_report(report: Report, json: bool = False, *, notes: bool = False) -> None:
    """Print tables and the files' folder, with `notes` all details; or all numbers as JSON."""
    if json:
        emit(report.as_json())
        return
    from sage_cli.reports.document import print_document

    print_document(report.document, console, details=notes)
    console.print(f"files: [bold]{escape(str(report.folder))}[/]", soft_wrap=True)


def check_gpu_option(gpu: int | None, dry_run: bool) -> None:
    """Raise ConfigurationError for a GPU that is named where nothing would read it."""
    if gpu is not None and not dry_run:
        raise ConfigurationError(
            f"--gpu {gpu} only has an effect on a plan, and --dry-run is missing",
            "add --dry-run, or leave out --gpu",
        )


PLAN_LABELS = {
    "length": "training length",
    "weights": "precision",
    "algorithm": "method",
    "overlong punishment": "overlong penalty",
    "tokens at most": "max. tokens",
    "batch": "batch per step",
    "rollout": "rollout sampling",
    "left": "remaining",
    "k": "values of k",
    "fits": "fits on the GPU",
    "does not fit": "what would help",
    "at the peak": "phase with the peak",
    "unknown": "not known",
    "measure": "evaluation",
    "base": "initial policy",
    "start": "initial policy",
}
"""A key or title of a plan's JSON -> what is printed in its place."""


def show_plan(plan: Callable[[], Sequence[Described]], json: bool = False) -> None:
    """Make a plan and print its stages: what each would do, and what of it is done."""
    with doing("planning"):
        described = plan()
    if json:
        emit({"stages": [{"stage": stage.title, **stage.facts} for stage in described]})
        return
    for stage in described:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            table.add_row(PLAN_LABELS.get(name, name), text)
        console.print(f"[bold]{PLAN_LABELS.get(stage.title, stage.title)}[/]", table)
    console.print("dry run: nothing was trained, sampled or written")


def show_trained(line: str, run: Run, *, measured: bool, json: bool) -> None:
    """Print `line` and, if `run` was `measured`, its figures; with `json` one object."""
    from sage_cli.store.evaluations import evaluation_figures

    figures = evaluation_figures(run) if measured else {}
    if json:
        emit(run.manifest | ({"evaluations": figures} if measured else {}))
        return
    console.print(line)
    for name, value in figures.items():
        if "/pass@" in name:
            console.print(f"  {escape(name)}  [cyan]{value:.4f}[/]")


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
            already = f", {done} of them done already" if done else ""
            self.say(f"{title}: {total} {unit[:-1] if total == 1 else unit}{already}")
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
        return f"{rate:.3g} {self._unit}/s{left}"


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
        return Text("" if speed is None else f"{speed:.3g} {self.unit}/s", style="dim")
