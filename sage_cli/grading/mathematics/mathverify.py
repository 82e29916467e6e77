"""Math-Verify: the judge of equality where exact comparison doesn't suffice.

Runs in worker processes only: it may take any time and memory. Its time-outs are alarms in whole
seconds, for the main thread; the process that waits for the worker enforces the rest.
"""

from __future__ import annotations

import re
import time
from typing import Any

from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify
from math_verify.errors import TimeoutException
from sympy import Expr, Symbol

from sage_cli.grading.grades import Status
from sage_cli.grading.mathematics.names import letters

_AS_WRITTEN = LatexExtractionConfig(
    normalization_config=NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="all"
    )
)
"""Without stripping units, which takes the t of 4t for one."""
_ENVIRONMENT = re.compile(r"(?<!\\)\$.+?(?<!\\)\$|(?<!\\)\\[(\[]|\\boxed\s*\{", re.DOTALL)
_LATEX = re.compile(r"[\\^_{}]")
_NO_LETTERS = re.compile(
    r"\\(?:mathbb|begin|end) ?\{[^{}]*\}|\\(?:int|sum|prod|lim|infty|pi|cdot|pm|mp|le|ge|ne|cup|cap"
    r"|approx|in|notin|setminus|emptyset|circ|to|lfloor|rfloor|lceil|rceil)(?![A-Za-z])"
)
_DECIMALS = 12
_DIGITS, _RELATIVE = 40, 1e-30
_WARM_UP_S = 60
_GOLDS: dict[str, Any] = {}


class _UnreadableError(ValueError):
    """An expression that Math-Verify can't parse."""


def equal(gold: str, answer: str, deadline: float) -> bool:
    """Return True if two LaTeX expressions are equal.

    Raises UnreadableError for an answer that can't be parsed, RuntimeError for such a gold, and
    TimeoutError when `deadline` (of time.monotonic) comes first.
    """
    try:
        target = _expression(answer, deadline)
        if target is None:
            raise _UnreadableError(answer)
        reference = _gold(gold, deadline)
        if reference is None:
            raise RuntimeError(f"Math-Verify can't read the gold {gold!r}")
        same = verify(
            reference,
            target,
            float_rounding=_DECIMALS,
            timeout_seconds=_left(deadline),
            raise_on_error=True,
        )
        return bool(same) and not _differ(reference, target)
    except TimeoutException as error:
        raise TimeoutError from error


def config(gold: str, answer: str, deadline: float, *, search: bool = False) -> Status:
    r"""Math-Verify's own parse and verify, with no rule of ours between them.

    What brings an environment ($...$, \(...\), \boxed{}) is parsed as it stands, anything else in
    \boxed{}, because bare LaTeX is read in part or not at all; an answer of plain text counts as
    it stands, too. With `search`, `answer` is a text in which Math-Verify finds the answer.
    """
    try:
        reference = _parsed(gold if _ENVIRONMENT.search(gold) else _boxed(gold), deadline)
        targets = [_parsed(text, deadline) for text in ([answer] if search else _spellings(answer))]
        for target in filter(None, targets):
            if verify(reference, target, timeout_seconds=_left(deadline)):
                return "right"
            verify(reference, target, timeout_seconds=_left(deadline), raise_on_error=True)
    except TimeoutException:
        return "timeout"
    return "wrong" if any(targets) else "unparseable"


def warm_up() -> None:
    """Load what sympy loads late."""
    equal(r"\sqrt{8}", r"2\sqrt{2}", time.monotonic() + _WARM_UP_S)


def _expression(text: str, deadline: float) -> Any | None:
    """Return what Math-Verify reads, unless it leaves out a letter and so a part of the text."""
    read = parse(_boxed(text), [_AS_WRITTEN], parsing_timeout=_left(deadline), raise_on_error=True)
    expression = next((expression for expression in read if not isinstance(expression, str)), None)
    if expression is None:
        return None
    names = " ".join(map(str, expression.atoms(Symbol))).casefold()
    written = letters(_NO_LETTERS.sub(" ", text))
    if r"\int" in text:
        written -= {"d"}
    return expression if all(name.strip("\\").casefold() in names for name in written) else None


def _differ(gold: Any, answer: Any) -> bool:
    """Return True if two constants differ, which Math-Verify compares by so many decimals."""
    if not all(isinstance(side, Expr) and not side.free_symbols for side in (gold, answer)):
        return False
    values = [side.evalf(_DIGITS) for side in (gold, answer)]
    if gold == answer or not all(value.is_finite for value in values):
        return False
    return bool(abs(values[0] - values[1]) > _RELATIVE * max(map(abs, values)))


def _spellings(answer: str) -> list[str]:
    if _ENVIRONMENT.search(answer):
        return [answer]
    return [_boxed(answer)] if _LATEX.search(answer) else [_boxed(answer), answer]


def _parsed(text: str, deadline: float) -> list[Any]:
    parsed: list[Any] = parse(text, parsing_timeout=_left(deadline), raise_on_error=True)
    return parsed


def _gold(text: str, deadline: float) -> Any | None:
    if text not in _GOLDS:
        _GOLDS[text] = _expression(text, deadline)
        if len(_GOLDS) > 1024:
            del _GOLDS[next(iter(_GOLDS))]
    return _GOLDS[text]


def _boxed(text: str) -> str:
    return rf"\boxed{{{text}}}"


def _left(deadline: float) -> int:
    return max(1, round(deadline - time.monotonic()))
