"""Numbers in running text, in figures or in words: found, read, and replaced in kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SMALL = tuple(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "  # noqa: SIM905
    "fifteen sixteen seventeen eighteen nineteen".split()
)
_TENS = tuple("twenty thirty forty fifty sixty seventy eighty ninety".split())  # noqa: SIM905
_VALUES = {word: number for number, word in enumerate(_SMALL)}
_VALUES |= {word: 10 * number for number, word in enumerate(_TENS, 2)}
_WORD = "|".join(sorted([*_VALUES, "hundred", "thousand"], key=len, reverse=True))
_JOINT = "(?:[- ]|(?<=hundred) and |(?<=thousand) and )"
NUMERAL = re.compile(
    rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{_WORD})(?:{_JOINT}(?:{_WORD}))*\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number where it stands in a text; `number` is None where it isn't a whole one."""

    start: int
    end: int
    text: str
    number: int | None


def numerals(text: str) -> list[Numeral]:
    """The numbers in `text`: `290`, `1,200`, `$3.00` (3), `forty-seven`, `two hundred six`.

    `2.5`, and words that follow each other without making one number, are there without a value.
    """
    return [
        Numeral(match.start(), match.end(), match[0], _read(match[0].lower()))
        for match in NUMERAL.finditer(text)
    ]


def rewritten(text: str, numerals: Sequence[Numeral], new: Mapping[int, int]) -> str:
    """`text` with the numbers that `new` maps replaced, words by words and figures by figures."""
    pieces, end = [], 0
    for numeral in numerals:
        if numeral.number is not None and numeral.number in new:
            pieces += [text[end : numeral.start], _like(numeral.text, new[numeral.number])]
            end = numeral.end
    return "".join([*pieces, text[end:]])


def spelled(number: int) -> str:
    """`number` below a million in English: 227 is `two hundred twenty-seven`."""
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {spelled(number % unit)}" if number % unit else ""
            return f"{spelled(number // unit)} {name}{rest}"
    if number < len(_SMALL):
        return _SMALL[number]
    ones = f"-{_SMALL[number % 10]}" if number % 10 else ""
    return _TENS[number // 10 - 2] + ones


def _like(old: str, number: int) -> str:
    if old[0].isdigit():
        return str(number) + (old[old.index(".") :] if "." in old else "")
    words = spelled(number)
    return words.capitalize() if old[0].isupper() else words


def _read(text: str) -> int | None:
    if text[0].isdigit():
        number = float(text.replace(",", ""))
        return int(number) if number.is_integer() else None
    words = [word for word in re.split("[- ]", text) if word != "and"]
    pairs = [pair for pair in pairwise(words) if _VALUES.keys() >= set(pair)]
    if not all(_joins(left, right) for left, right in pairs):
        return None
    thousands, below = 0, 0
    for word in words:
        if word == "thousand":
            thousands, below = 1000 * (below or 1), 0
        else:
            below = 100 * (below or 1) if word == "hundred" else below + _VALUES[word]
    return thousands + below


def _joins(left: str, right: str) -> bool:
    """Return True if two number words make one number: `forty seven`, not `two three`."""
    return _VALUES[left] >= 20 and 0 < _VALUES[right] < 10
