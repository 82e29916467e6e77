"""The judge that asks a function of one's own: `function(answer, gold) -> bool | float`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.grading.grades import Judged, Status
from sage_cli.grading.judges.judge import Judge
from sage_cli.settings.own_code import OwnFunction
from sage_cli.settings.plugins import blamed


class FunctionJudge(Judge):
    """Asks the function in a worker, which may be killed; it is loaded there and nowhere else.

    True and False are right and wrong. A float is the share in [0, 1] that is right.
    """

    def __init__(self, function: OwnFunction) -> None:
        function.require()
        self.function = function
        self._called: Callable[[str, str], Any] | None = None
        self._refused: ConfigurationError | None = None

    def warm_up(self) -> None:
        """Load the function; where that fails, every answer is an error that says why."""
        try:
            self._called = self.function.load()
        except ConfigurationError as error:
            self._refused = error

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:  # noqa: ARG002
        """Return None: every pair goes to a worker."""
        return None

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Judged:  # noqa: ARG002
        """Return what the function says.

        Raises ConfigurationError, with the line, for what it raises and for what is neither.
        """
        found = self._asked(answer, gold)
        found = found.item() if hasattr(found, "item") else found
        if isinstance(found, bool):
            return "right" if found else "wrong"
        if isinstance(found, int | float) and 0 <= found <= 1:
            return float(found)
        raise ConfigurationError(
            f"{self.function} returns {found!r}, which is neither True or False nor in [0, 1]"
        )

    def _asked(self, answer: str, gold: str) -> Any:
        """Return what the function returns; name it, and the line, in what it raises."""
        if self._called is None:
            raise self._refused or RuntimeError("the judge was not loaded")
        try:
            with blamed(str(self.function), self.function.module):
                return self._called(answer, gold)
        except ConfigurationError as error:
            if isinstance(error.__cause__, TimeoutError):  # has a status of its own
                raise error.__cause__ from None
            raise
