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
    """The closed box that begins last; what follows the last one is read first, mostly enough."""
    last = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    return None if last < 0 else _closed_box(text, last) or _closed_box(text, 0)


def _closed_box(text: str, begin: int) -> str | None:
    open_braces: list[tuple[int, bool]] = []
    found = (-1, -1)
    for match in _BOX_OR_BRACE.finditer(text, begin):
        token = match.group()
        if token[-1] == "{" and token != r"\{":
            open_braces.append((match.end(), len(token) > 1))
        elif token == "}" and open_braces:
            opened, is_box = open_braces.pop()
            if is_box:
                found = max(found, (opened, match.start()))
            if begin and not open_braces:
                break
    return text[slice(*found)] if found[0] >= 0 else None
