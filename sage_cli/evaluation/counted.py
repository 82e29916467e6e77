"""A tally of grades as counts, with the grade of each sample."""

from __future__ import annotations

from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades
from sage_cli.store.samples.tally import Tally


def counts_of(tally: Tally, seed: int) -> Counts:
    """The counts of one evaluation seed; grades one by one only where none is lacking."""
    grades = None if tally.lacking else SampleGrades((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, grades)
