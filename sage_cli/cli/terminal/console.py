"""The one console: tables and panels for people, one JSON object for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from rich.panel import Panel
from rich.table import Column
from rich.text import Text

from sage_cli.cli.terminal.visible import SafeConsole, visible, visible_json
from sage_cli.errors import SageError
from sage_cli.settings.passwords import without_passwords
from sage_cli.store.json_files import json_text

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
