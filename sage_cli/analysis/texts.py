"""Features of texts: patterns of reasoning, skeletons of solutions, and classes of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

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


TokenClass = Literal[
    "connective", "word", "rest of a word", "number", "operator", "punctuation", "space", "tag"
]
CLASSES: tuple[TokenClass, ...] = (
    "connective", "word", "rest of a word", "number", "operator", "punctuation", "space", "tag",
)  # fmt: skip
_CONNECTIVES = """
    also alternatively although and assume because but consider finally first hence hmm however
    if instead let like maybe moreover next no now okay or otherwise perhaps second similarly since
    so still suppose then therefore thus unless wait whereas while yet
"""
CONNECTIVES = frozenset(_CONNECTIVES.split())
"""Words that join or turn a line of thought, chosen by hand."""

_TAG = re.compile(r"<\|?/?\w+\|?>")
_TOKEN_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_OPERATOR = re.compile(r"[-+*/^=<>×÷·±√%\\≤≥≠≈−]")


class Token(NamedTuple):
    """A token's class, and the lower-case word that begins with it, if one does."""

    kind: TokenClass
    word: str | None


def classified(pieces: Sequence[str]) -> list[Token]:
    """Return the class of each of the tokens whose texts, joined, are a completion.

    A token belongs to the first tag, digit, word or sign in it, in this order. What continues a
    word that an earlier token began is `rest of a word`; a command such as \\frac is an operator.
    """
    text = "".join(pieces)
    words = {
        place: (match, match.start())
        for match in _TOKEN_WORD.finditer(text)
        for place in range(match.start(), match.end())
    }
    tokens, begin = [], 0
    for piece in pieces:
        tokens.append(_token(piece, begin, text, words))
        begin += len(piece)
    return tokens


def _token(piece: str, begin: int, text: str, words: dict[int, tuple[re.Match[str], int]]) -> Token:
    if _TAG.fullmatch(piece.strip()):
        return Token("tag", None)
    if not piece.strip():
        return Token("space", None)
    if any(sign.isdigit() for sign in piece):
        return Token("number", None)
    inside = next((words[i] for i in range(begin, begin + len(piece)) if i in words), None)
    if inside is None:
        return Token("operator" if _OPERATOR.search(piece) else "punctuation", None)
    match, start = inside
    if start and text[start - 1] == "\\":
        return Token("operator", None)
    if start < begin:
        return Token("rest of a word", None)
    word = match.group().lower()
    return Token("connective" if word in CONNECTIVES else "word", word)
