"""Counts over stored samples and their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_cli.store.columns import as_numpy
from sage_cli.store.inventory import Integers, Inventory

RIGHT = "right"


@dataclass(frozen=True, eq=False)
class Tally:
    """What was found among the first n samples of each of P problems.

    `n_P` counts samples with a verdict and `right_P` the right ones of them, which `right_PN`
    tells one by one (False where there is no verdict); `statuses`, `cut_off`
    (at the limit of tokens) and `tokens` are over all of these. `lacking` samples of the n x P
    aren't stored or have no verdict: a figure over n samples per problem needs none to lack.
    """

    problem_ids: tuple[str, ...]
    n_P: NDArray[np.int64]
    right_P: NDArray[np.int64]
    right_PN: NDArray[np.bool_]
    statuses: Counter[str]
    cut_off: int
    tokens: int
    lacking: int


def tally_of(
    inventory: Inventory,
    status_S: Integers,
    statuses: Sequence[str],
    problem_ids: Sequence[str],
    n: int,
) -> Tally:
    """Count the samples below `n` of these problems.

    `status_S` is each sample's status as its place in `statuses`, -1 where there is no verdict.
    """
    counted = np.flatnonzero(inventory.select(problem_ids, n) & (status_S >= 0))
    status = status_S[counted]
    place = {id_: i for i, id_ in enumerate(problem_ids)}
    places = np.array([place.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64)
    problem = places[inventory.problem_S[counted]]
    right = status == (statuses.index(RIGHT) if RIGHT in statuses else -1)
    right_PN = np.zeros((len(problem_ids), n), dtype=bool)
    right_PN[problem, inventory.index_S[counted]] = right
    by_status = np.bincount(status, minlength=len(statuses)).tolist()
    return Tally(
        tuple(problem_ids),
        _per_problem(problem, len(problem_ids)),
        right_PN.sum(axis=1, dtype=np.int64),
        right_PN,
        Counter({name: count for name, count in zip(statuses, by_status, strict=True) if count}),
        int(as_numpy(inventory.rows["cut_off"])[counted].sum()),
        int(as_numpy(inventory.rows["tokens"])[counted].sum(dtype=np.int64)),
        n * len(problem_ids) - len(counted),
    )


def _per_problem(problem: Any, count: int) -> Any:
    return np.bincount(problem, minlength=count).astype(np.int64)
