"""Mathematical answers: sage's strict judge, and Math-Verify as the field calls it."""

from __future__ import annotations

from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.normalise import latex, normalise
from sage_cli.grading.verdict import Status


class Strict:
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

        def prove(one: str, other: str) -> bool:
            return mathverify.equal(latex(one), latex(other), deadline)

        try:
            return _status(bool(Equality(tolerance, prove)(gold, answer)))
        except mathverify.UnreadableError:
            return "unparseable"


class Recipe:
    """Math-Verify without guards, for comparison with published numbers; no tolerance."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:  # noqa: ARG002
        """Never: every pair goes to Math-Verify."""
        return None

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:  # noqa: ARG002
        """Its verdict."""
        from sage_cli.grading.mathematics import mathverify

        return mathverify.recipe(gold, answer, deadline)


def _status(equal: bool) -> Status:
    return "right" if equal else "wrong"
