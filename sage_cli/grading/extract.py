r"""The final answer of a completion: between tags, in \boxed{}, or the whole text."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.latex_boxed import last_boxes
from sage_cli.settings.sections.judging import Extraction


@dataclass(frozen=True)
class AnswerTags:
    """The tags that enclose the final answer."""

    open: str = "<SOLUTION>"
    close: str = "</SOLUTION>"


def extract(completion: str, tags: AnswerTags, place: Extraction = "tags") -> str | None:
    r"""The answer that stands at `place`, None where there is none; linear in the length.

    `tags`: in the last closed pair. `boxed`: in the last closed \boxed{}, and in those that "and",
    "or" or a comma joins to it. `tags-then-boxed`: in the tags, or in the box where no pair is
    closed or the last one is blank. `text`: the whole completion.
    """
    if place == "text":
        return completion
    tagged = None if place == "boxed" else _last_tagged(completion, tags)
    if place == "tags" or (tagged and not tagged.isspace()):
        return tagged
    boxed = last_boxes(completion)
    return tagged if boxed is None else boxed


def answer_begin(text: str, tags: AnswerTags) -> int | None:
    """The position of the answer in the last closed pair of tags; None where no pair is closed."""
    last_close = text.rfind(tags.close)
    opened = text.rfind(tags.open, 0, max(last_close, 0))
    begin = opened + len(tags.open)
    return begin if opened >= 0 and text.find(tags.close, begin) >= 0 else None


def _last_tagged(text: str, tags: AnswerTags) -> str | None:
    begin = answer_begin(text, tags)
    # closing tags may follow each other: the answer ends at the first of them
    return None if begin is None else text[begin : text.find(tags.close, begin)]
