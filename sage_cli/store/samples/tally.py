"""Counts over stored samples and their grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_cli.store.arrow_tables import as_numpy
from sage_cli.store.samples.inventory import Integers, Inventory

RIGHT = "right"


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over the first N samples of each of P problems.

    `n_P` counts graded samples, `right_P` the right ones, which `right_PN` marks (False without a
    grade). `statuses`, `truncated` (at the limit of tokens) and `tokens` are over all graded
    samples. `lacking` of the N x P samples are not stored or not graded: a result over N samples
    per problem needs it to be 0.
    """

    problem_ids: tuple[str, ...]
    n_P: NDArray[np.int64]
    right_P: NDArray[np.int64]
    right_PN: NDArray[np.bool_]
    statuses: Counter[str]
    truncated: int
    tokens: int
    lacking: int


def tally_of(
    inventory: Inventory,
    status_S: Integers,
    statuses: Sequence[str],
    problem_ids: Sequence[str],
    n: int,
) -> Tally:
    """Return the tally of samples below `n` of these problems.

    `status_S` is each sample's status as an index into `statuses`, -1 without a grade.
    """
    counted = np.flatnonzero(inventory.select(problem_ids, n) & (status_S >= 0))
    status = status_S[counted]
    number = {id_: i for i, id_ in enumerate(problem_ids)}
    numbers = np.array([number.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64)
    problem = numbers[inventory.problem_S[counted]]
    right = status == (statuses.index(RIGHT) if RIGHT in statuses else -1)
    right_PN = np.zeros((len(problem_ids), n), dtype=bool)
    right_PN[problem, inventory.index_S[counted]] = right
    by_status = np.bincount(status, minlength=len(statuses)).tolist()
    return Tally(
        tuple(problem_ids),
        np.bincount(problem, minlength=len(problem_ids)).astype(np.int64),
        right_PN.sum(axis=1, dtype=np.int64),
        right_PN,
        Counter({name: count for name, count in zip(statuses, by_status, strict=True) if count}),
        int(as_numpy(inventory.rows["truncated"])[counted].sum()),
        int(as_numpy(inventory.rows["tokens"])[counted].sum(dtype=np.int64)),
        n * len(problem_ids) - len(counted),
    )
