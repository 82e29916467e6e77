"""Answers that are words: choices, numerals in a base, times, dates, plain words."""

from __future__ import annotations

import re
from math import gcd

from sage_cli.grading.mathematics.english import SMALL, TEXT, is_word, words

_CODE = re.compile(r"(?=\w*[A-Z])(?!0[xbo])[A-Za-z\d]*[A-Za-z]\d[A-Za-z\d]*", re.ASCII)
"""Letters and digits in an order that counts: 1A2B, H2O."""
_SPELLED_WORD = re.compile(r"(?<![A-Za-z\d])[A-Za-z][a-z]{2,}(?![A-Za-z^_])")
_NO_WORD = re.compile(r"\\[A-Za-z]+(?: ?\{[^{}]*\})?|_\{\w+\}")
_ARTICLE = re.compile(r"(?:the|an?) (?=[^\W\d]{2})", re.IGNORECASE)
_PROPERTIES = words("even odd prime composite rational irrational real complex imaginary natural")
_HAS_PROPERTY = re.compile(r"(?<=[a-z]) (?:number|integer|function)[ .]*$")
"""What an even number is beside the gold `even`."""
_RELATION = re.compile(r"[<>=≤≥≠≈]+")
_CHOICE = re.compile(r"\(? ?([A-Z]) ?\)?|\[ ?([A-Z]) ?\]")
_BRACES = re.compile(r"(?<!\\)[{}]")
_CHOSEN = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer) ?)?\(?([A-Z])(?:\)|:|\.(?!\d)|(?<=[a-z] [A-Z]))(.*)"
)
_OTHER_CHOICE = re.compile(
    r"(?<![A-Za-z\\])[A-J](?![A-Za-z])|^ ?(?:is|are|was|isn|can|could|may|might|seems)\b"
    r"|\b(?:wrong|incorrect)\b|∨"
)
_DATE = re.compile(r"\d\d?([/.])\d\d?\1\d{4}")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    r"Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_ISO_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
_WRITTEN_DATE = re.compile(
    rf"(?:(?:the )?(\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} (\d\d?)(?:st|nd|rd|th)?)"
    r"(?: (\d{4}))?",
    re.ASCII | re.IGNORECASE,
)
_TIME = re.compile(r"(\d\d?)(?::([0-5]\d)(?::([0-5]\d))?)?(am|pm|noon|midnight)?", re.ASCII)
_BASED = re.compile(
    r"\(?(\d\w*|[A-F]+\w*(?=_\{?1[1-6])|[a-f]{2,}(?=_\{16\}))\)?"
    rf"(?:_\{{?| ?\(? ?base ?)(\d+|{'|'.join(SMALL)})[)}}]*"
)
_PREFIXED = re.compile(r"0(?:(b)|(o)|x)([\dA-Fa-f]+)")
_POINTS = re.compile(r"(\\(?:angle|triangle) )([A-Z]{2,})")


def same_wording(gold: str, answer: str) -> bool | None:
    """Return True or False if the normalised gold is not a formula; None if it is one."""
    if choice := _CHOICE.fullmatch(TEXT.sub(r"\1", gold).strip()):
        return (choice[1] or choice[2]) == _chosen(answer)
    numerals = _digits(gold), _digits(answer)
    if numerals[0] or (numerals[1] and not _PREFIXED.fullmatch(answer)):
        return numerals[0] == numerals[1]
    if time := _time_of_day(gold):
        same = time == _time_of_day(answer)
        return same or (None if _may_be_ratio(gold) else False)
    if date := _calendar_date(gold):
        return date == _calendar_date(answer)
    if _RELATION.fullmatch(gold) or _DATE.fullmatch(gold):
        return gold == answer
    if points := _POINTS.fullmatch(gold):
        return answer in (gold, f"{points[1]}{points[2][::-1]}")
    if _CODE.fullmatch(gold):
        return _plain_word(gold) == _plain_word(re.sub(r"[_{}]", "", TEXT.sub(r"\1", answer)))
    spelled = [_SPELLED_WORD.findall(_NO_WORD.sub(" ", text)) for text in (gold, answer)]
    is_text = TEXT.fullmatch(gold) or is_word(TEXT.sub(r" \1 ", gold).strip())
    if is_text or any(map(is_word, spelled[0])):
        if _plain_word(gold) in _PROPERTIES:
            answer = _HAS_PROPERTY.sub("", TEXT.sub(r"\1", answer))
        same = _plain_word(gold) == _plain_word(answer)
        # other words differ, even if they are made of the same letters; a list's may change places
        return same or (
            False if is_text or ("," not in gold and spelled[0] != spelled[1]) else None
        )
    return True if r"\text" in gold + answer and _plain_word(gold) == _plain_word(answer) else None


def _plain_word(text: str) -> str:
    """Words lose their case, their article and their spaces; a single letter keeps its case."""
    text = _ARTICLE.sub("", TEXT.sub(r"\1", text).strip(" {}"), count=1)
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)(?![A-Za-z])", "", text)
    text = re.sub(r"(?<=\d)(?:, ?| )(?!\d{3}(?!\d))(?=\d)", "_", text)  # 1, 2 are not 12
    return text if len(text) == 1 else re.sub(r"[\s!,]|\.(?!\d)", "", text).casefold()


def _chosen(answer: str) -> str | None:
    """Return the letter of a choice, with its text or without; None for several or none."""
    text = _BRACES.sub("", TEXT.sub(r" \1 ", answer))
    text = " ".join(text.split()).replace("( ", "(")
    if alone := _CHOICE.fullmatch(text):
        return alone[1] or alone[2]
    chosen = _CHOSEN.fullmatch(text)
    return chosen[1] if chosen and not _OTHER_CHOICE.search(chosen[2]) else None


def _digits(text: str) -> tuple[str, str] | None:
    """Return the digits and the base of 52_8, (52)_8, 52 (base 8) and 0x2A."""
    if prefixed := _PREFIXED.fullmatch(text):
        digits, base = prefixed[3], "2" if prefixed[1] else "8" if prefixed[2] else "16"
    elif numeral := _BASED.fullmatch(TEXT.sub(r"\1", text)):
        digits, base = numeral[1], str(SMALL.get(numeral[2], numeral[2]))
    else:
        return None
    return digits.lstrip("0").upper() or "0", base


def _time_of_day(text: str) -> tuple[int, ...] | None:
    """Return hours, minutes and seconds; 4:30 is before noon, like 4:30 a.m."""
    plain = re.sub(r"[\s.]", "", TEXT.sub(r"\1", text)).lower()
    match = _TIME.fullmatch({"noon": "12noon", "midnight": "12midnight"}.get(plain, plain))
    if match is None or not (match[2] or match[4]):
        return None
    hours, *others = (int(part or 0) for part in match.groups()[:3])
    if match[4]:
        hours = hours % 12 + (12 if match[4] in ("pm", "noon") else 0)
    return hours, *others


def _calendar_date(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of 2024-02-29, February 29, 2024, 29 Feb.; the year may be 0.

    Of 02/03/2024 nobody knows which is the month.
    """
    plain = " ".join(TEXT.sub(r" \1 ", text).replace(",", " ").split()).strip(" .")
    if iso := _ISO_DATE.fullmatch(plain):
        year, month, day = map(int, iso.groups())
    elif written := _WRITTEN_DATE.fullmatch(plain):
        month = 1 + _MONTHS.index((written[2] or written[3])[:3].lower())
        day, year = int(written[1] or written[4]), int(written[5] or 0)
    else:
        return None
    return (year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _may_be_ratio(text: str) -> bool:
    """3:10 and 5:12:13 may be ratios; 3:05, 12:10 and 03:10 may not."""
    parts = text.split(":")
    if not all(part.isdigit() and part[0] != "0" for part in parts):
        return False
    return gcd(*map(int, parts)) == 1
