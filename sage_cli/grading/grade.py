"""`grade` for one completion, without setting anything up."""

from __future__ import annotations

from functools import lru_cache

from sage_cli.grading.grader import Grader
from sage_cli.grading.verdict import Grade


def grade(gold: object, completion: object) -> Grade:
    """The grade of a completion: strict mathematics between <SOLUTION> tags.

    What exact comparison can't decide goes to a worker process that is started once and shared.
    For other tags, judges, modes or many completions use a `Grader`.
    """
    return _shared().grade(gold, completion)


@lru_cache(maxsize=1)
def _shared() -> Grader:
    return Grader(workers=1)
