r"""The final answer of a completion: the last closed pair of tags, or the last closed \boxed{}."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.boxed import last_boxed


@dataclass(frozen=True)
class AnswerTags:
    r"""What encloses the final answer; with `boxed` it is \boxed{} whatever the tags say."""

    open: str = "<SOLUTION>"
    close: str = "</SOLUTION>"
    boxed: bool = False


def extract(completion: str, tags: AnswerTags) -> str | None:
    """The answer, or None where no pair is closed; linear in the completion's length."""
    return last_boxed(completion) if tags.boxed else _last_tagged(completion, tags)


def _last_tagged(text: str, tags: AnswerTags) -> str | None:
    last_close = text.rfind(tags.close)
    opened = text.rfind(tags.open, 0, max(last_close, 0))
    if opened < 0:
        return None
    begin = opened + len(tags.open)
    end = text.find(tags.close, begin)  # before last_close where closing tags follow each other
    return text[begin:end] if end >= 0 else None
