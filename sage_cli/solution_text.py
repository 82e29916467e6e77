r"""The marks in the text of a solution or a gold: <think> and </think>, \boxed{...}, `any of`.

No answer stands in a thought, and no stop text ends one. Solutions are published or sampled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from sage_cli.json_value import json_value

OPEN, CLOSE = "<think>", "</think>"
_BOX_OR_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BEGIN = re.compile(r"\\(?:boxed|fbox)\s*\{")
_PLAIN_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}\\]*)\}")
"""A box without braces or backslashes inside, as most are: one look finds its end."""
_DIGIT_BOX = re.compile(r"\\(?:boxed|fbox)\s*(\d)(?![\w^{]|[.,]\d|\s*\\(?![)\]]))")
r"""\boxed 5, which is what LaTeX makes of it."""
_BLANK = r"(?:[\s$*]|\\[()\[\] ,;]|\\q?quad(?![A-Za-z]))*"
_NAMED = re.compile(rf"(?<![A-Za-z\\])([A-Za-z])(_(?:\w|\{{\w+\}}))?\s*={_BLANK}\Z")
"""The unknown that a box is the value of: x= or x_1=."""
_ENDS = re.compile(
    r"(?<![.])(?<!\bi\.e)(?<!\be\.g)(?<!\bvs)[.!?](?![.])(?=[\s$*)\\]|\Z)|\n[ \t]*\n"
    r"|\n[*# ]*(?!(?:Or|And|Alternatively|Maybe|Perhaps|Possibly|Else|Otherwise)\b)[A-Z#][a-z# ]"
)
"""Where a sentence ends: a full stop, a blank line, a line that begins with a capital."""
_DENIED = re.compile(
    r"\b(?:no|not|never|nor|maybe|perhaps|possibly|probably|might|may|could|unless|instead|rather|"
    r"wrong|incorrect)\b|n't\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"\b(?:or|either|else|otherwise|alternatively|versus|vs)\b|\\(?:lor|vee)(?![A-Za-z])|[∨|/]",
    re.IGNORECASE,
)
_AND = re.compile(r"\band\b")
_DERIVED = re.compile(
    r"\b(?:so|then|hence|thus|therefore|thereby|whence|consequently|giv(?:es?|ing)|yield(?:s|ing)"
    r"|impl(?:y|ies|ying)|which (?:is|equals|means|becomes|leads to|simplifies to|evaluates to))\b"
    r"|\\(?:implies|therefore|Rightarrow|Longrightarrow)(?![A-Za-z])|[⇒∴]|\bi\.e\.",
    re.IGNORECASE,
)
"""Words behind which a box is what follows from the box before them."""
_COMPUTED = re.compile(r"[^A-Za-z]*=|(?:[^A-Za-z]|\\(?:times|cdot|div|left|right)(?![A-Za-z]))*=")
"""What is computed from one box to the next: `+ 1 =`."""
_JOINT = 1000
"""Characters that may stand between two boxes of one answer."""
_AT_MOST = 50
"""Boxes that may be joined to the last one."""
_NESTED = 8
"""Boxes around one, or without an end, behind which an earlier one is looked for."""
Span = tuple[int, int, int]
"""Where a box begins, where its contents begin, and where they end."""
_ANY_OF = "any of "


def unmarked(text: str) -> str:
    """Return a worked solution without the marks of its thought."""
    return text.replace(OPEN, "").replace(CLOSE, "").strip()


def is_open(text: str) -> bool:
    """Return True if `text` ends inside a thought."""
    return text.rfind(OPEN) > text.rfind(CLOSE)


def stop_end(text: str, stop: str | None) -> int | None:
    """Return the end of the first `stop` outside thoughts; None without one."""
    begin = -1 if stop is None else text.find(stop)
    # a stop text inside a thought is part of the reasoning: the search goes on behind the thought's
    # end
    while stop is not None and begin >= 0:
        if not is_open(text[:begin]):
            return begin + len(stop)
        closed = text.find(CLOSE, begin)
        begin = text.find(stop, closed) if closed >= 0 else -1
    return None


def last_boxed(text: str) -> str | None:
    r"""The contents, braces inside included, of the \boxed{} or \fbox{} that begins last.

    Escaped braces (`\{`) are text, and an inner box counts rather than the one around it. None
    without a box, and where the one that begins last never closes: the answer was cut off. Linear
    in the length of `text`.
    """
    box = _last_box(text)
    return None if box is None else text[box[1] : box[2]]


def last_boxes(text: str) -> str | None:
    r"""`last_boxed`, and before it the other boxes of its sentence, as one answer.

    `\boxed{2} and \boxed{3}` is "2 and 3", `x=\boxed{2} or x=\boxed{3}` is "2 or 3", and what is
    denied or doubted is not a list: `\boxed{2}, not \boxed{3}` is "2 not 3". Where "so", "hence"
    or "which gives" joins two boxes the later one is the answer. None without a box; linear in
    the length of `text`.
    """
    box = _last_box(text)
    if box is None:
        return None
    answer = text[box[1] : box[2]]
    for _ in range(_AT_MOST):
        before = _box_before(text, box)
        joint = None if before is None else text[before[2] + 1 : box[0]]
        if before is None or joint is None or _ENDS.search(joint):
            break
        first = text[before[1] : before[2]]
        # 60 characters: a name with its = and formatting is shorter, and a search of the whole text
        # for each box would be quadratic
        names = _NAMED.search(text, max(0, before[0] - 60), before[0]), _NAMED.search(joint)
        if names[1] is not None:
            joint = joint[: names[1].start()]
        # kept in the answer with the word, so that it equals neither gold: who writes two answers
        # and doubts one has not decided
        if _DENIED.search(joint):
            answer = f"{first} not {answer}"
        elif _CHOICE.search(joint):
            answer = f"{first} or {answer}"
        elif _DERIVED.search(joint):
            break
        # \boxed{1} + 1 = \boxed{2}: one computation, whose boxes belong together
        elif _COMPUTED.fullmatch(joint.strip(" $*")) and names[1] is None:
            answer = f"{first} {joint.replace('$', '').strip()} {answer}"
        elif names[0] and names[1] and names[0][1] != names[1][1]:
            answer = f"{names[0][0]}{first}, {names[1][0]}{answer}".replace("$", "")
        else:
            answer = f"{first}{' and ' if _AND.search(joint) else ', '}{answer}"
        box = before
    return answer


def _box_before(text: str, box: Span) -> Span | None:
    """Return the last closed box that ends before `box` begins, at most _JOINT characters away."""
    begin = box[0]
    for _ in range(_NESTED):
        # backwards from the end: a completion may be long, and only its last boxes count
        begin = max(text.rfind(r"\boxed", 0, begin), text.rfind(r"\fbox", 0, begin))
        if begin < 0:
            return None
        if plain := _PLAIN_BOX.match(text, begin) or _DIGIT_BOX.match(text, begin):
            span = (begin, *plain.span(1))
        else:
            closed = _closed_boxes(text, begin) if _BEGIN.match(text, begin) else []
            span = next((each for each in closed if each[0] == begin), (begin, begin, len(text)))
        if span[2] < box[0]:
            return span if box[0] - span[2] <= _JOINT else None
    return None


def boxed_spans(text: str) -> list[Span]:
    """Return where the boxes that close stand, in their order; of nested ones the innermost."""
    if "boxed" not in text and "fbox" not in text:
        return []
    digits = [(match.start(), *match.span(1)) for match in _DIGIT_BOX.finditer(text)]
    spans = sorted([*_closed_boxes(text, 0), *digits])
    following = [*(begin for begin, _, _ in spans[1:]), len(text)]
    return [span for span, begin in zip(spans, following, strict=True) if begin >= span[2]]


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
        # boxes' own braces are opened by the same token, so that they are matched with the right
        # closing one
        if token[-1] == "{" and token != r"\{":
            open_braces.append((match.start(), match.end(), len(token) > 1))
        elif token == "}" and open_braces:
            start, opened, is_box = open_braces.pop()
            if is_box:
                closed.append((start, opened, match.start()))
            if begin and not open_braces:
                break
    return closed


def any_of(golds: Sequence[str]) -> str:
    """Return one gold for several of which any is correct: `any of ["7", "seven"]`."""
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
