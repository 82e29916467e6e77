"""Rules by which a column's text becomes a gold."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite

from sage_cli.json_value import json_value
from sage_cli.solution_text import boxed_spans, last_boxed

GoldRule = Callable[[str], str | None]
HASHES = "####"
"""GSM8K's mark between a worked solution and its answer."""
LONGEST_ANSWER = 300
"""Characters; what is longer is a text and not an answer."""
_THOUSANDS = re.compile(r"[-+]?\$?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_AROUND_A_BOX = re.compile(r"(?:[\s$.,:;*]|\\[()\[\]])*")
_LEADS_TO_A_BOX = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}|=")
_SENTENCE = re.compile(
    r"(?:[^\W\d_]+['’,;:-]?\w*\s+){4,}\S|\b(?i:answer)\b|[a-z]{2,}[.!?]\s+[A-Z$\\]"
)
_WORD = re.compile(r"[^\W_]+")
_SAYING = frozenset(
    {
        "is",
        "are",
        "was",
        "were",
        "equals",
        "we",
        "so",
        "thus",
        "therefore",
        "hence",
        "then",
        "because",
        "since",
        "let",
        "have",
        "gives",
        "get",
    }
)
"""Words by which a few words are a sentence rather than a name or a unit."""


def whole(text: str) -> str | None:
    """Return the whole column as the gold; None if it is empty."""
    return text or None


def integer(text: str) -> str | None:
    """Return an integer without the leading zeros that AIME prints (033)."""
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else text or None


def in_last_box(text: str) -> str | None:
    r"""Return the contents of the last \boxed{...}; None without one or if it is empty."""
    return (last_boxed(text) or "").strip() or None


def after_hashes(text: str) -> str | None:
    """Return the text after the last ####, thousands separators removed (GSM8K)."""
    _, marker, answer = text.rpartition(HASHES)
    return answer.strip().replace(",", "") or None if marker else None


def is_worked(text: str) -> bool:
    r"""Return True for a worked solution that marks its answer by #### or by a \boxed{}.

    A text that is a box and nothing else, or a box with its unit, is an answer by itself.
    """
    if HASHES in text:
        return True
    spans = boxed_spans(text)
    if not spans:
        return False
    before, after = text[: spans[-1][0]], text[spans[-1][2] + 1 :]
    if _AROUND_A_BOX.fullmatch(before) and _AROUND_A_BOX.fullmatch(after):
        return False
    return bool(_LEADS_TO_A_BOX.search(before)) or len(spans) > 1 or is_prose(after)


def worked_answer(text: str) -> str | None:
    r"""Return the answer of a worked solution as its publisher reads it; another text whole.

    It is the text after the last ####, which has no thousands separators in GSM8K, unless that is a
    heading of Markdown; else the last \boxed{} that closes. None where that is empty.
    """
    if not is_worked(text):
        return text or None
    after = text.rpartition(HASHES)[2].strip() if HASHES in text else ""
    boxes = boxed_answers(text)
    if after and "\n" not in after and not boxed_spans(after):
        return after.replace(",", "") if _THOUSANDS.fullmatch(after) else after
    if boxes:
        return boxes[-1] or None
    return text if after else None


def boxed_answers(text: str) -> list[str]:
    r"""Return what the \boxed{} of a text hold, in their order, the innermost of nested ones."""
    return [text[begin:end].strip() for _, begin, end in boxed_spans(text)]


def only_element(text: str) -> str | None:
    """Return the only text of a JSON list, such as `["9"]` of Skywork; another text whole."""
    if not text.startswith("["):
        return text or None
    try:
        listed = json_value(text)
    except ValueError:
        return text
    single = isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], str)
    return (listed[0].strip() or None) if single else text


def before_unit(text: str) -> str | None:
    """Return the text before the unit in parentheses: `9 (apples)` -> `9` (ASDiv)."""
    return re.sub(r"\s*\([^()]*\)\s*$", "", text) or None


def is_plain_number(text: str) -> bool:
    """Return True if `text` is a finite decimal number, such as 12, -0.5 or 1e5."""
    try:
        return isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def is_prose(text: str) -> bool:
    """Return True for sentences, which no answer can equal; False for numbers, names and units."""
    words = _WORD.findall(text.lower())
    return (
        "\n" in text.strip()
        or len(text) > LONGEST_ANSWER
        or bool(_SENTENCE.search(text))
        or (len(words) > 2 and "\\" not in text and not _SAYING.isdisjoint(words))
    )
