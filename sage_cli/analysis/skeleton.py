"""The skeleton of a solution: what is left when words and numbers are taken out."""

from __future__ import annotations

import re

_TAGGED = re.compile(r"<[^<>\s]+>")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_LEFT_OUT = re.compile(r"[\s.,;!?'\"`*]+|\$|\\[\[\]()]")
_AGAIN = re.compile(r"(.{2,60}?)\1+")


def skeleton(text: str) -> str:
    r"""Formulas' signs, LaTeX commands and single letters in their order; each number is `#`.

    Tags, words of two letters and more, blanks and punctuation are left out, and what is repeated
    at once stands once. `S:47*60=2820;47*3=141` is `S:#*#=#`. Two solutions with one
    skeleton calculate in the same way; rewording alone doesn't make another, other names of
    variables do.
    """
    bare = _WORD.sub("", _TAGGED.sub("", text))
    signs = _LEFT_OUT.sub("", _NUMBER.sub("#", bare))
    return _AGAIN.sub(r"\1", signs)
