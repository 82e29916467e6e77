from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, pooled


def test_orders_by_id_and_pools_seeds_by_id() -> None:
    one = Counts(("a", "b"), [4, 8], [1, 2])
    two = Counts(("b", "a"), [8, 4], [5, 0])
    assert two.ordered(one.problem_ids).c_P.tolist() == [0, 5]
    both = pooled([one, two])
    assert both.n_P.tolist() == [8, 16]
    assert both.c_P.tolist() == [1, 7]


def test_a_missing_problem_is_named() -> None:
    one, two = Counts(("a", "b"), [4, 4], [1, 1]), Counts(("a",), [4], [1])
    with pytest.raises(MetricError, match="1 are on one side only, first 'b'"):
        one.ordered(two.problem_ids)
    with pytest.raises(MetricError, match="first 'b'"):
        two.ordered(one.problem_ids)


def test_arrays_are_copied_and_frozen() -> None:
    n_P = np.array([4, 4])
    counts = Counts(("a", "b"), n_P, [1, 1])
    n_P[0] = 0
    assert counts.n_P.tolist() == [4, 4]
    with pytest.raises(ValueError, match="read-only"):
        counts.c_P[0] = 2


@pytest.mark.parametrize(
    ("ids", "n", "c", "said"),
    [
        (("a", "a"), [4, 4], [1, 1], "'a' is counted twice"),
        (("a",), [4], [5], "5 right of 4"),
        (("a",), [4], [-1], "-1 right of 4"),
        (("a", "b"), [4], [1], "2 problems, but n_P"),
        (("a",), [4], [0.5], "whole"),
    ],
)
def test_refuses_impossible_counts(
    ids: tuple[str, ...], n: list[int], c: list[int], said: str
) -> None:
    with pytest.raises(MetricError, match=said):
        Counts(ids, n, c)  # type: ignore[arg-type]
