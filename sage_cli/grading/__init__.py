"""Completion to grade.

`extract.py` finds the answer, a judge (`judges/`) compares it with the gold, by the rules of
`mathematics/` where it is mathematics and in a process of `workers/` where that may take long.
"""

from sage_cli.grading.grader import Grader, grade
from sage_cli.grading.identity import GRADING_VERSION, GraderIdentity
from sage_cli.grading.status import Grade

__all__ = ["GRADING_VERSION", "Grade", "Grader", "GraderIdentity", "grade"]
