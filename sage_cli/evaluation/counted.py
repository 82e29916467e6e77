"""A tally of verdicts as counts, with which sample is right."""

from __future__ import annotations

from sage_cli.metrics import Counts
from sage_cli.metrics.counts import Verdicts
from sage_cli.store.samples.tally import Tally


def counts_of(tally: Tally, seed: int) -> Counts:
    """The counts of one evaluation seed; verdicts one by one only where none is lacking."""
    verdicts = None if tally.lacking else Verdicts((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, verdicts)
