"""Completion to verdict."""

from sage_cli.grading.grade import grade
from sage_cli.grading.grader import Grader
from sage_cli.grading.verdict import Grade

__all__ = ["Grade", "Grader", "grade"]
