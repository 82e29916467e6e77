"""The grades of a measurement, for the notes and the JSON of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.counted import agreeing
from sage_cli.grading.grades import STATUSES, status_in_words
from sage_cli.metrics.counts import SeedCounts


def record(measured: SeedCounts) -> dict[str, Any]:
    """Return a measurement as JSON data: grades, and n and c of every problem."""
    counts = measured.counts
    return {
        "seed": measured.seed,
        "sample_set": measured.sample_set,
        "statuses": dict(measured.statuses),
        "truncated": measured.truncated,
        "right_truncated": measured.right_truncated,
        "problems": [
            {"problem": id_, "n": int(n), "c": int(c)}
            for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
        ],
    }


def grade_notes(measured: Sequence[SeedCounts]) -> tuple[str, ...]:
    """Return notes such as `grpo on aime, evaluation seed 0: 40 correct, 8 wrong; 2 truncated`."""
    return tuple(
        f"{counted.policy} on {counted.benchmark}, evaluation seed {counted.seed}: "
        f"{_grades(counted)}"
        for counted in measured
    )


def is_mostly_unread(measured: SeedCounts) -> bool:
    """Return True if no answer was read from half of the samples or more."""
    return 2 * measured.statuses.get("unparseable", 0) >= sum(measured.statuses.values())


def _grades(measured: SeedCounts) -> str:
    """Return the numbers of grades, in the order of `STATUSES`."""
    given = sorted(measured.statuses, key=lambda status: (*STATUSES, status).index(status))
    counted = ", ".join(
        f"{measured.statuses[status]:,} {status_in_words(status)}" for status in given
    )
    if measured.truncated:
        counted += f"; of all, {measured.truncated:,} "
        counted += f"{agreeing(measured.truncated, 'is', 'are')} truncated"
    if passed := measured.right_truncated:
        share = 100 * passed / measured.statuses["right"]
        counted += f", of which {passed:,} {agreeing(passed, 'is', 'are')} correct "
        counted += f"({share:.3g}% of the correct ones)"
    return counted
