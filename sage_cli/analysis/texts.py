"""Features of texts: patterns of reasoning and skeletons of solutions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.settings.presets import read_yaml, shipped

_TAGGED = re.compile(r"<[^<>\s]+>")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_LEFT_OUT = re.compile(r"[\s.,;!?'\"`$]+|\*\*|\\[\[\]()]")


def skeleton(text: str) -> str:
    r"""Return a solution without its words and numbers: signs, LaTeX commands, single letters.

    Each number is `#`; tags, words of two letters and more, blanks and punctuation are left out:
    `S: 47*60=2820; then 47*3=141` is `S:#*#=##*#=#`. Two solutions with one skeleton calculate in
    the same way; rewording does not change it, renaming variables does.
    """
    bare = _WORD.sub("", _TAGGED.sub("", text))
    return _LEFT_OUT.sub("", _NUMBER.sub("#", bare))


@dataclass(frozen=True)
class Detector:
    """A pattern of reasoning: a text shows it if any of the `expressions` is found."""

    name: str
    expressions: tuple[re.Pattern[str], ...]

    def shown_by(self, text: str) -> bool:
        """Return True if the text shows the pattern."""
        return any(expression.search(text) for expression in self.expressions)


def read_detectors(path: Path | None = None) -> tuple[Detector, ...]:
    """Return the detectors of a YAML file, by default the paper's three patterns.

    The file has lists of expressions by name; case is ignored. Raises ConfigurationError for a file
    that is not of this form.
    """
    path = path or shipped("configs/analyses") / "patterns.yaml"
    detectors = []
    for name, expressions in read_yaml(path).items():
        if not (isinstance(expressions, list) and expressions):
            raise ConfigurationError(
                f"{path}: pattern '{name}' must be a list of expressions, not {expressions!r}",
                "write each expression on a line of its own, as `- 'of the form'`",
            )
        detectors.append(Detector(name, tuple(_compiled(path, name, one) for one in expressions)))
    if not detectors:
        raise ConfigurationError(f"{path} names no patterns", "write `name:` and its expressions")
    return tuple(detectors)


def _compiled(path: Path, name: str, expression: object) -> re.Pattern[str]:
    try:
        return re.compile(str(expression), re.IGNORECASE)
    except re.error as error:
        raise ConfigurationError(
            f"{path}: pattern '{name}' can't be read: {expression} ({error})",
            "mend it; the syntax is that of Python's re",
        ) from None
