"""Completion to grade.

`grades.py` finds the answer, a judge (`judges.py`) compares it with the gold, by the rules of
`mathematics/` for formulas, and in a process of `worker.py` if that may take long.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_cli.grading.grader import Grader, grade
    from sage_cli.grading.grades import GRADING_VERSION, Grade, GraderIdentity

__all__ = ["GRADING_VERSION", "Grade", "Grader", "GraderIdentity", "grade"]


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for: a plan reads `grades.py`, and grades nothing."""
    if name not in __all__:
        raise AttributeError(name)
    module = "grader" if name in ("Grader", "grade") else "grades"
    return getattr(import_module(f"sage_cli.grading.{module}"), name)
