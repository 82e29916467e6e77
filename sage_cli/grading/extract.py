r"""The final answer of a completion: the last closed pair of tags, or the last closed \boxed{}."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX_OR_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True)
class AnswerTags:
    r"""What encloses the final answer; with `boxed` it is \boxed{} whatever the tags say."""

    open: str = "<SOLUTION>"
    close: str = "</SOLUTION>"
    boxed: bool = False


def extract(completion: str, tags: AnswerTags) -> str | None:
    """The answer, or None where no pair is closed; linear in the completion's length."""
    return _last_boxed(completion) if tags.boxed else _last_tagged(completion, tags)


def _last_tagged(text: str, tags: AnswerTags) -> str | None:
    last_close = text.rfind(tags.close)
    opened = text.rfind(tags.open, 0, max(last_close, 0))
    if opened < 0:
        return None
    begin = opened + len(tags.open)
    end = text.find(tags.close, begin)  # before last_close where closing tags follow each other
    return text[begin:end] if end >= 0 else None


def _last_boxed(text: str) -> str | None:
    open_braces: list[tuple[int, bool]] = []
    found: tuple[int, int] | None = None
    for match in _BOX_OR_BRACE.finditer(text):
        token = match.group()
        if token[-1] == "{" and token != r"\{":
            open_braces.append((match.end(), len(token) > 1))
        elif token == "}" and open_braces:
            begin, is_box = open_braces.pop()
            if is_box:
                found = begin, match.start()
    return text[slice(*found)] if found else None
