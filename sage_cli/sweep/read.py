"""From `--space` to a search space: a shipped name, a file, or the space itself."""

from __future__ import annotations

from sage_cli.config.schema import SageConfig
from sage_cli.sweep.space import Space


def guide_of(text: str) -> str | None:
    """The guide that a space is about, where it is about a single one and doesn't choose it."""


def read_space(text: str, config: SageConfig) -> Space:
    """The space that `text` means, every key and value checked against the schema.

    Raises ConfigurationError that lists all problems.
    """
