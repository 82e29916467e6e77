"""The skeleton of a solution: what is left when words and numbers are taken out."""

from __future__ import annotations

import re

_TAGGED = re.compile(r"<[^<>\s]+>")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
_LEFT_OUT = re.compile(r"[\s.,;!?'\"`$]+|\*\*|\\[\[\]()]")


def skeleton(text: str) -> str:
    r"""Formulas' signs, LaTeX commands and single letters in their order; each number is `#`.

    Tags, words of two letters and more, blanks and punctuation are left out:
    `S: 47*60=2820; then 47*3=141` is `S:#*#=##*#=#`. Two solutions with one skeleton calculate in
    the same way; rewording alone doesn't make another, other names of variables do.
    """
    bare = _WORD.sub("", _TAGGED.sub("", text))
    return _LEFT_OUT.sub("", _NUMBER.sub("#", bare))
