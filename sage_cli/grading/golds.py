"""Whether golds are golds: each must grade itself right."""

from __future__ import annotations

from collections.abc import Iterable

from sage_cli.grading.extract import AnswerTags
from sage_cli.grading.grader import Grader
from sage_cli.grading.mathematics.normalise import gold_text


def check_golds(
    golds: Iterable[tuple[str, object]],
    *,
    judge: str = "math",
    mode: str = "strict",
    tolerance: float | None = None,
) -> list[str]:
    """The ids of the (id, gold) pairs whose gold, given as the answer, is not graded `right`."""
    golds = list(golds)
    tags = AnswerTags()
    with Grader(judge=judge, mode=mode, tolerance=tolerance) as grader:
        grades = grader.grade_many(
            (gold, f"{tags.open}{gold_text(gold)}{tags.close}") for _, gold in golds
        )
    return [name for (name, _), grade in zip(golds, grades, strict=True) if grade.status != "right"]
