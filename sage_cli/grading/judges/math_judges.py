"""Judges of mathematics: `sage`'s own rules (`strict`), and Math-Verify alone (`math-verify`).

Math-Verify is imported where it is used, because it loads sympy and only workers need it.
"""

from __future__ import annotations

from sage_cli.grading.grades import Status
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.normalise import latex, normalise


class _WithMathVerify(Judge):
    def warm_up(self) -> None:
        """Load Math-Verify and sympy."""
        from sage_cli.grading.mathematics import mathverify

        mathverify.warm_up()


class StrictMath(_WithMathVerify):
    """Exact comparison first; Math-Verify decides the rest, behind guards."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:
        """Return the status unless it takes computer algebra."""
        if not normalise(answer):
            return "unparseable"
        equal = Equality(tolerance)(gold, answer)
        return None if equal is None else _status(equal)

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:
        """Return the status, with Math-Verify where exact comparison leaves it open."""
        from sage_cli.grading.mathematics import mathverify

        if not normalise(answer):
            return "unparseable"

        def prove(gold: str, answer: str) -> bool:
            return mathverify.equal(latex(gold), latex(answer), deadline)

        try:
            return _status(bool(Equality(tolerance, prove)(gold, answer)))
        except mathverify.UnreadableError:
            return "unparseable"


class PlainMathVerify(_WithMathVerify):
    """Math-Verify without guards, for comparison with published numbers; no tolerance."""

    _search = False

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:  # noqa: ARG002
        """Return None: every pair goes to Math-Verify."""
        return None

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:  # noqa: ARG002
        """Return Math-Verify's status."""
        from sage_cli.grading.mathematics import mathverify

        return mathverify.recipe(gold, answer, deadline, search=self._search)


class SearchingMathVerify(PlainMathVerify):
    """The same for a whole completion, in which Math-Verify looks for the answer itself."""

    _search = True


def _status(equal: bool) -> Status:
    return "right" if equal else "wrong"
