"""Equality of answers that are no formulas: words, letters of choices, texts, based numerals."""

from __future__ import annotations

import re

_BASED = re.compile(r"(\d\w*|[A-F]+\w*(?=_\{1[1-6]\}))_\{(?:\\text\{)?(\d+)\}?\}")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_WORDS = re.compile(r"\\text\{[^{}\d]*\}")
_CHOICE = re.compile(r"\(?([A-Z])\)?")


def same_wording(gold: str, answer: str) -> bool | None:
    """Return True or False if the normalised gold is no formula; None if it is one."""
    if _WORDS.fullmatch(gold) or _CHOICE.fullmatch(gold):
        return _plain_word(gold) == _plain_word(answer)
    if text := _TEXT.fullmatch(gold):
        return text[1] == answer
    numerals = _BASED.fullmatch(gold), _BASED.fullmatch(answer)
    if numerals[0] or numerals[1]:
        return _digits(numerals[0]) == _digits(numerals[1])
    return None


def _plain_word(text: str) -> str:
    """Letters of choices keep their case, words lose it."""
    text = _TEXT.sub(r"\1", text).strip(" {}")
    if choice := _CHOICE.fullmatch(text):
        return choice[1]
    return text if len(text) == 1 else re.sub(r"[\s.]", "", text).casefold()


def _digits(numeral: re.Match[str] | None) -> tuple[str, str] | None:
    return (numeral[1].lstrip("0").upper() or "0", numeral[2]) if numeral else None
