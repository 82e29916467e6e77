"""The final answers of graded samples, counted by problem for a vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sage_cli.errors import ConfigurationError
from sage_cli.metrics.estimators import RIGHT, Votes
from sage_cli.store.annotations import GradeStore


def final_answer(status: str, extracted: str | None) -> str | None:
    """Return RIGHT, a wrong answer's text without blanks and case, or None for no answer.

    Two spellings of a wrong answer count as two: only the gold is compared as mathematics.
    """
    if status == "right":
        return RIGHT
    if status == "unparseable" or extracted is None:
        return None
    return "= " + "".join(extracted.split()).casefold()


def count_answers(grades: GradeStore, problem_ids: Sequence[str], n: int) -> tuple[Votes, ...]:
    """Return the final answers of the first `n` samples of each problem; no text is read.

    Raises ConfigurationError where no wrong sample has an answer, as with a judge that only says
    right or wrong: without their votes every majority would be correct.
    """
    graded = grades.read()
    inventory = graded.inventory
    chosen_S = inventory.select(problem_ids, n) & (graded.status_S >= 0)
    rows = np.flatnonzero(chosen_S).astype(np.int32)
    counted: dict[str, Counter[str | None]] = {id_: Counter() for id_ in problem_ids}
    wrong, silent = 0, 0
    for problem, status, text in zip(
        inventory.problem_S[rows].tolist(),
        graded.status_S[rows].tolist(),
        graded.extracted(rows),
        strict=True,
    ):
        name = graded.statuses[status]
        wrong += name == "wrong"
        silent += name == "wrong" and text is None
        counted[inventory.problem_ids[problem]][final_answer(name, text)] += 1
    if wrong and silent == wrong:
        raise ConfigurationError(
            f"none of {wrong:,} wrong samples has a final answer that could vote, because their "
            f"judge ({grades.judge}) only says right or wrong",
            "compare by another statistic, or grade by --set grading.judge=math",
        )
    return tuple(counted.values())
