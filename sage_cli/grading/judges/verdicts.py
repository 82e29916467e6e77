"""The judge of imported samples: their verdicts are stored, so it has nothing to say of others."""

from __future__ import annotations

from sage_cli.errors import ConfigurationError
from sage_cli.grading.grades import Status
from sage_cli.grading.judges.judge import Judge
from sage_cli.settings.sections.judging import IMPORTED_JUDGE


class Verdicts(Judge):
    """Gives `error`: only an imported sample has a verdict, which is read and not judged."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status:  # noqa: ARG002
        """Return `error`."""
        return "error"

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:  # noqa: ARG002
        """Return `error`."""
        return "error"


def require_judge(judge: str | None) -> None:
    """Raise ConfigurationError if new completions would be graded by verdicts that they lack."""
    if judge == IMPORTED_JUDGE:
        raise ConfigurationError(
            f"grading.judge={IMPORTED_JUDGE} is the verdict that came with imported samples: it "
            "grades nothing new",
            "name a judge, as --set grading.judge=math, or leave it out",
        )
