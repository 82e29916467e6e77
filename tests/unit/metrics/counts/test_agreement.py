"""Agreement of two markings, by hand."""

import math

import numpy as np
import pytest

from sage_cli.metrics.counts.agreement import by_chance, jaccard, kappa, rank_correlation

ONE = np.array([True, True, True, False, False, False, False, False])
OTHER = np.array([True, True, False, True, True, False, False, False])
NONE = np.zeros(8, bool)


def test_overlap_by_hand():
    # both mark 2 of the 5 that one of them marks
    assert jaccard(ONE, OTHER) == pytest.approx(2 / 5)
    # shares 3/8 and 4/8: 12/64 together, 12/64 / (24/64 + 32/64 - 12/64) = 12 / 44
    assert by_chance(ONE, OTHER) == pytest.approx(12 / 44)
    # they agree on 5 of 8; by chance 12/64 + 20/64 = 1/2: (5/8 - 1/2) / (1/2)
    assert kappa(ONE, OTHER) == pytest.approx(1 / 4)
    assert (jaccard(ONE, ONE), kappa(ONE, ONE), kappa(ONE, ~ONE)) == pytest.approx(
        # against its complement: nothing agrees, 30/64 would: (0 - 15/32) / (17/32)
        (1.0, 1.0, -15 / 17)
    )


def test_marks_of_nothing_have_no_agreement():
    assert math.isnan(jaccard(NONE, NONE))
    assert math.isnan(by_chance(NONE, NONE))
    assert math.isnan(kappa(NONE, NONE))
    assert (jaccard(ONE, NONE), kappa(ONE, NONE)) == (0.0, 0.0)
    for of in (jaccard, by_chance, kappa, rank_correlation):
        assert math.isnan(of(NONE[:0], NONE[:0]))


def test_rank_correlation_by_hand():
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: sum of products of deviations 1.5 x 1.5 x 2 = 4.5,
    # sums of squares 4.5 and 5
    found = rank_correlation(np.array([0.0, 5.0, 5.0, 9.0]), np.array([1.0, 2.0, 3.0, 40.0]))
    assert found == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert math.isnan(rank_correlation(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
