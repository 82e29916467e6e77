"""Text from models, servers and files made safe for a terminal: no control sequences."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

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
    return _COMMANDS.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def _escaped(one: re.Match[str]) -> str:
    number = ord(one[0])
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
