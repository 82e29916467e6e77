"""The one console: tables and panels for people, one JSON object for programs."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from sage_cli.errors import SageError
from sage_cli.store.json_text import json_text

console = Console(highlight=False)
"""Everything for people. With `--json` it writes to stderr, so that stdout holds JSON alone."""


def speak(json: bool) -> None:
    """Speak to people on stdout, or on stderr where stdout belongs to a JSON object."""
    console.stderr = json


def emit(value: Any) -> None:
    """Print the one machine-readable object of a `--json` command."""
    sys.stdout.write(json_text(value))
    sys.stdout.flush()


def show_error(error: SageError) -> None:
    """One panel on stderr: the cause and the next step."""
    text = Text(error.cause)
    if error.next_step:
        text.append(f"\n\n{error.next_step}", style="cyan")
    Console(stderr=True).print(Panel(text, title="error", title_align="left", border_style="red"))
