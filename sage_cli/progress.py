"""What a workflow tells whoever watches it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """One bar at a time, and lines between them."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Start a bar of `total` units, `done` of which are behind us."""

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Go on by `amount`; `numbers` are shown beside the bar."""

    def end(self) -> None:
        """Close the bar."""


class Silent:
    """Nobody watches."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Begin nothing."""

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Show nothing."""

    def end(self) -> None:
        """End nothing."""
