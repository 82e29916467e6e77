"""The one console: tables, reports and plans for people, one JSON object for programs.

Text from models, servers and files is made safe for a terminal: no control sequences.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.settings.passwords import without_passwords
from sage_cli.store.files import json_text

if TYPE_CHECKING:
    from sage_cli.models.planned import Described
    from sage_cli.reports.document import Report
    from sage_cli.store.run import Run


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


def show_error(error: SageError, exit_code: int) -> None:
    """Print a panel with cause and next step on stderr; with `--json` also the error object."""
    cause, step = without_passwords(error.cause), without_passwords(error.next_step or "")
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


Notes = Annotated[
    bool, typer.Option("--notes", help="Print all notes and tables that the report's files have.")
]


def show_report(report: Report, json: bool = False, *, notes: bool = False) -> None:
    """Print tables and the files' folder, with `notes` all details; or all numbers as JSON."""
    if json:
        emit(report.as_json())
        return
    from sage_cli.reports.tables import print_document

    print_document(report.document, console, details=notes)
    console.print(f"files: [bold]{escape(str(report.folder))}[/]", soft_wrap=True)


def refuse_gpu(gpu: int | None, dry_run: bool) -> None:
    """Raise ConfigurationError for a GPU that is named where nothing would read it."""
    if gpu is not None and not dry_run:
        raise ConfigurationError(
            f"--gpu {gpu} names the GPU that a plan is made for, and --dry-run is missing",
            "add --dry-run, or leave out --gpu",
        )


def show_plan(plan: Callable[[], Sequence[Described]], json: bool = False) -> None:
    """Make a plan and print its stages: what each would do, and what of it is done."""
    from sage_cli.cli.live import doing

    with doing("planning"):
        described = plan()
    if json:
        emit({"stages": [{"stage": stage.title, **stage.facts} for stage in described]})
        return
    for stage in described:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            table.add_row(name, text)
        console.print(f"[bold]{stage.title}[/]", table)
    console.print("dry run: nothing was written")


def show_trained(line: str, run: Run, *, measured: bool, json: bool) -> None:
    """Print `line` and, if `run` was `measured`, its figures; with `json` one object."""
    from sage_cli.store.run import evaluation_figures

    figures = evaluation_figures(run) if measured else {}
    if json:
        emit(run.manifest | ({"evaluations": figures} if measured else {}))
        return
    console.print(line)
    for name, value in figures.items():
        if "/pass@" in name:
            console.print(f"  {escape(name)}  [cyan]{value:.4f}[/]")
