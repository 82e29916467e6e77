"""The one console: safe text and errors for people, one JSON object for programs.

Text from models, servers and files is made safe for a terminal: no control sequences.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from sage_cli.errors import SageError
from sage_cli.settings.passwords import without_passwords
from sage_cli.store.json_files import json_text

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
        emit(error_object(cause, next_step, exit_code))


def error_object(cause: str, next_step: str | None, exit_code: int) -> dict[str, Any]:
    """Return an error as `--json` prints it."""
    return {"error": {"cause": cause, "next_step": next_step, "exit_code": exit_code}}


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
