"""Mathematics in the mode `strict`: sage's own rules, Math-Verify for what they leave open."""

from __future__ import annotations

from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.normalise import latex, normalise
from sage_cli.grading.status import Status


class StrictMath(Judge):
    """Exact comparison first; Math-Verify for what is left, behind guards."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:
        """Everything but algebra."""
        if not normalise(answer):
            return "unparseable"
        equal = Equality(tolerance)(gold, answer)
        return None if equal is None else _status(equal)

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:
        """The same with Math-Verify at hand."""
        from sage_cli.grading.mathematics import mathverify

        if not normalise(answer):
            return "unparseable"

        def prove(one: str, other: str) -> bool:
            return mathverify.equal(latex(one), latex(other), deadline)

        try:
            return _status(bool(Equality(tolerance, prove)(gold, answer)))
        except mathverify.UnreadableError:
            return "unparseable"

    def warm_up(self) -> None:
        """Load Math-Verify and sympy."""
        from sage_cli.grading.mathematics import mathverify

        mathverify.warm_up()


def _status(equal: bool) -> Status:
    return "right" if equal else "wrong"
