"""Words and classes of a completion's tokens, from the text around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

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
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
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
        for match in _WORD.finditer(text)
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
