"""Completion to grade.

`extract.py` finds the answer, a judge (`judges/`) compares it with the gold, by the rules of
`mathematics/` for formulas, and in a process of `workers/` if that may take long.
"""

from sage_cli.grading.grader import Grader, grade
from sage_cli.grading.grades import GRADING_VERSION, Grade, GraderIdentity

__all__ = ["GRADING_VERSION", "Grade", "Grader", "GraderIdentity", "grade"]
