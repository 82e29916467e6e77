"""The declaration of an interaction: a gain, method by method, less that of the first method."""

from __future__ import annotations

from pydantic import Field

from sage_cli.settings.base import Section


class Interaction(Section):
    """Is the gain of one change the same with every method?"""

    name: str
    gains: dict[str, tuple[str, str]] = Field(min_length=2)
    """Method -> the labels with the change and without it; the first method is compared with."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the methods of the suite that it names."""
        return tuple(dict.fromkeys(label for pair in self.gains.values() for label in pair))
