r"""The marks in the text of a solution or a gold: <think> and </think>, \boxed{...}, `any of`.

No answer stands in a thought, and no stop text ends one. Solutions are published or sampled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from sage_cli.json_value import json_value

OPEN, CLOSE = "<think>", "</think>"


def unmarked(text: str) -> str:
    """Return a worked solution without the marks of its thought."""
    return text.replace(OPEN, "").replace(CLOSE, "").strip()


def is_open(text: str) -> bool:
    """Return True if `text` ends inside a thought."""
    return text.rfind(OPEN) > text.rfind(CLOSE)


def stop_end(text: str, stop: str | None) -> int | None:
    """Return the end of the first `stop` outside thoughts; None without one."""
    begin = -1 if stop is None else text.find(stop)
    while stop is not None and begin >= 0:
        if not is_open(text[:begin]):
            return begin + len(stop)
        closed = text.find(CLOSE, begin)
        begin = text.find(stop, closed) if closed >= 0 else -1
    return None


_BOX_OR_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BEGIN = re.compile(r"\\(?:boxed|fbox)\s*\{")
_PLAIN_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}\\]*)\}")
"""A box without braces or backslashes inside, as most are: one look finds its end."""
_DIGIT_BOX = re.compile(r"\\(?:boxed|fbox)\s*(\d)(?![\w^{]|[.,]\d|\s*\\(?![)\]]))")
r"""\boxed 5, which is what LaTeX makes of it."""
_BLANK = r"(?:[\s$*]|\\[()\[\] ,;]|\\q?quad)*"
_NAMED = rf"(?:([A-Za-z])(?:_(?:\w|\{{\w+\}}))?\s*={_BLANK})"
_BETWEEN = re.compile(
    rf"\}}{_BLANK}(?:,{_BLANK})?(?:(?:\\text\s*\{{\s*)?\b(and|or)\b(?:\s*\}})?|(?<=,)){_BLANK}"
    rf"{_NAMED}?\Z"
)
"""What joins two boxes into one answer: `and`, `or`, a comma, with the marks of LaTeX around it."""
_BEFORE = re.compile(rf"{_NAMED}\Z")
"""The unknown that a box is the value of: x= or x_1=."""
_JOINT = 60
"""Characters that may stand between two boxes of one answer."""
_AT_MOST = 50
"""Boxes that may be joined to the last one."""

Span = tuple[int, int, int]
"""Where a box begins, where its contents begin, and where they end."""


def last_boxed(text: str) -> str | None:
    r"""The contents, braces inside included, of the \boxed{} or \fbox{} that begins last.

    Escaped braces (`\{`) are text, and an inner box counts rather than the one around it. None
    without a box, and where the one that begins last never closes: the answer was cut off. Linear
    in the length of `text`.
    """
    box = _last_box(text)
    return None if box is None else text[box[1] : box[2]]


def last_boxes(text: str) -> str | None:
    r"""`last_boxed`, and before it the boxes that `and`, `or` or a comma joins to it.

    `\boxed{2} and \boxed{3}` is "2 and 3", `x=\boxed{2} or x=\boxed{3}` is "2 or 3". None without
    a box; linear in the length of `text`.
    """
    box = _last_box(text)
    if box is None:
        return None
    answer = text[box[1] : box[2]]
    joint = _joint(text, box)
    if joint is None:
        return answer
    ending = {closed[2]: closed for closed in _closed_boxes(text, 0)}
    for _ in range(_AT_MOST):
        box = ending.get(joint.start()) if joint else None
        if joint is None or box is None or not _same_unknown(text, box, joint[2]):
            break
        answer = f"{text[box[1] : box[2]]}{f' {joint[1]} ' if joint[1] else ', '}{answer}"
        joint = _joint(text, box)
    return answer


def boxed_spans(text: str) -> list[Span]:
    """Return where the boxes that close stand, in their order; of nested ones the innermost."""
    if "boxed" not in text and "fbox" not in text:
        return []
    digits = [(match.start(), *match.span(1)) for match in _DIGIT_BOX.finditer(text)]
    spans = sorted([*_closed_boxes(text, 0), *digits])
    following = [*(begin for begin, _, _ in spans[1:]), len(text)]
    return [span for span, begin in zip(spans, following, strict=True) if begin >= span[2]]


def _same_unknown(text: str, box: Span, name: str | None) -> bool:
    """Return True if `box` is a value of the unknown `name` too; None names none."""
    before = _BEFORE.search(text, max(0, box[0] - _JOINT), box[0])
    return name is None or (before is not None and before[1] == name)


def _joint(text: str, box: Span) -> re.Match[str] | None:
    """The closing brace before a box, with what joins the two."""
    begin = max(0, box[0] - _JOINT)
    return _BETWEEN.search(text, begin, box[0]) if text.find("}", begin, box[0]) >= 0 else None


def _last_box(text: str) -> Span | None:
    last = len(text)
    while True:
        end, last = last, text.rfind(r"\boxed", 0, last)
        last = max(last, text.rfind(r"\fbox", last + 1, end))
        if last < 0:
            return None
        if box := _PLAIN_BOX.match(text, last) or _DIGIT_BOX.match(text, last):
            return last, *box.span(1)
        if _BEGIN.match(text, last):
            return max(_closed_boxes(text, last), default=None)


def _closed_boxes(text: str, begin: int) -> list[Span]:
    """The closed boxes from `begin` on; unless it is 0, up to the end of the box that is there."""
    closed: list[Span] = []
    open_braces: list[tuple[int, int, bool]] = []
    for match in _BOX_OR_BRACE.finditer(text, begin):
        token = match.group()
        if token[-1] == "{" and token != r"\{":
            open_braces.append((match.start(), match.end(), len(token) > 1))
        elif token == "}" and open_braces:
            start, opened, is_box = open_braces.pop()
            if is_box:
                closed.append((start, opened, match.start()))
            if begin and not open_braces:
                break
    return closed


_ANY_OF = "any of "


def any_of(golds: Sequence[str]) -> str:
    """Return one gold for several of which any is right, as `any of ["7", "seven"]`."""
    distinct = list(dict.fromkeys(golds))
    return distinct[0] if len(distinct) == 1 else _ANY_OF + json.dumps(distinct, ensure_ascii=False)


def each_gold(gold: str) -> tuple[str, ...]:
    """Return the golds that `any_of` put together; any other gold alone."""
    if not gold.startswith(f'{_ANY_OF}["'):
        return (gold,)
    try:
        return tuple(map(str, json_value(gold.removeprefix(_ANY_OF))))
    except ValueError:
        return (gold,)
