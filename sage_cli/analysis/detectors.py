"""Patterns of reasoning as regular expressions, read from YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.presets import read_yaml, shipped
from sage_cli.errors import ConfigurationError


@dataclass(frozen=True)
class Detector:
    """A pattern of reasoning: a text shows it where any of the `expressions` is found."""

    name: str
    expressions: tuple[re.Pattern[str], ...]

    def shown_by(self, text: str) -> bool:
        """Whether the text shows the pattern."""
        return any(expression.search(text) for expression in self.expressions)


def shipped_patterns() -> Path:
    """The paper's three patterns."""
    return shipped("configs/analyses") / "patterns.yaml"


def read_detectors(path: Path | None = None) -> tuple[Detector, ...]:
    """The detectors of a YAML file, by default the paper's: name -> list of expressions.

    Case is ignored. Raises ConfigurationError that names what can't be read.
    """
    path = path or shipped_patterns()
    found = []
    for name, expressions in read_yaml(path).items():
        if not (isinstance(expressions, list) and expressions):
            raise ConfigurationError(
                f"{path}: pattern '{name}' must be a list of expressions, not {expressions!r}",
                "write each expression on a line of its own, as `- 'of the form'`",
            )
        found.append(Detector(name, tuple(_compiled(path, name, one) for one in expressions)))
    if not found:
        raise ConfigurationError(f"{path} names no patterns", "write `name:` and its expressions")
    return tuple(found)


def _compiled(path: Path, name: str, expression: object) -> re.Pattern[str]:
    try:
        return re.compile(str(expression), re.IGNORECASE)
    except re.error as error:
        raise ConfigurationError(
            f"{path}: pattern '{name}' can't be read: {expression} ({error})",
            "mend it; the syntax is that of Python's re",
        ) from None
