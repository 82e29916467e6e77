from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts, pooled
from sage_cli.metrics.comparisons.support import (
    different_seeds,
    grade_correlation,
    paired_grades,
)
from sage_cli.metrics.counts import SampleGrades


def graded(*rows: str, seed: int = 0, ids: str = "abcdefgh") -> Counts:
    """A problem per row, as `0110`: samples 1 and 2 are right."""
    right_PN = np.array([[sample == "1" for sample in row] for row in rows])
    n_P = np.full(len(rows), right_PN.shape[1])
    return Counts(
        tuple(ids[: len(rows)]), n_P, right_PN.sum(axis=1), SampleGrades((seed,), right_PN)
    )


def test_seeds_are_pooled_side_by_side_and_problems_keep_their_grades() -> None:
    both = pooled([graded("01", "11"), graded("10", "00", seed=1)])
    assert both.grades is not None
    assert both.grades.seeds == (0, 1)
    assert both.grades.right_PN.astype(int).tolist() == [[0, 1, 1, 0], [1, 1, 0, 0]]
    turned = both.ordered(("b", "a"))
    assert turned.grades is not None
    assert turned.grades.right_PN.astype(int).tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert pooled([graded("01"), Counts(("a",), [2], [1])]).grades is None


def test_grades_are_paired_where_seeds_and_samples_are_the_same() -> None:
    one = graded("0110")
    pairs = paired_grades(one, graded("0100"))
    assert pairs is not None
    assert [pair.astype(int).tolist() for pair in pairs] == [[[0, 1, 1, 0]], [[0, 1, 0, 0]]]
    for other in (graded("0100", seed=1), graded("01"), Counts(("a",), [4], [1])):
        assert paired_grades(one, other) is None
        assert np.isnan(grade_correlation(one, other))
    assert different_seeds(one, graded("0100", seed=1))
    assert not different_seeds(one, graded("01"))
    assert not different_seeds(one, Counts(("a",), [4], [1]))


def test_the_correlation_by_hand() -> None:
    # a: 1/2 and 1/4 right, b: 1/2 and 1/2; together right 1/2 and 1/4: covariances 1/2 - 1/4 = 1/4
    # and 1/4 - 1/8 = 1/8; deviations 1/2 x 1/2 and sqrt(3)/4 x 1/2. The third never varies.
    a, b = graded("0011", "0001", "1111"), graded("0011", "0011", "0110")
    expected = (1 / 4 + 1 / 8) / (1 / 4 + 3**0.5 / 8)
    assert grade_correlation(a, b) == pytest.approx(expected, rel=1e-12)
    assert grade_correlation(a, a) == pytest.approx(1, rel=1e-12)
    turned = b.ordered(("c", "a", "b"))
    assert grade_correlation(a, turned) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(grade_correlation(graded("0000"), graded("0101")))
