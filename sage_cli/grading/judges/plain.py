"""Mathematics in the mode `math-verify`: the field's plain recipe."""

from __future__ import annotations

from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.status import Status


class PlainMathVerify(Judge):
    """Math-Verify without guards, for comparison with published numbers; no tolerance."""

    _search = False

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:  # noqa: ARG002
        """Never: every pair goes to Math-Verify."""
        return None

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:  # noqa: ARG002
        """What Math-Verify says."""
        from sage_cli.grading.mathematics import mathverify

        return mathverify.recipe(gold, answer, deadline, search=self._search)

    def warm_up(self) -> None:
        """Load Math-Verify and sympy."""
        from sage_cli.grading.mathematics import mathverify

        mathverify.warm_up()


class SearchingMathVerify(PlainMathVerify):
    """The same for a whole completion, in which Math-Verify looks for the answer itself."""

    _search = True
