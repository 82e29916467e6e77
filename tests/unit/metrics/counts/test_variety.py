"""Entropy of counts and expected numbers of kinds, by hand."""

import math

import pytest

from sage_cli.metrics.counts.answers import distinct_of, entropy_of_counts


def test_entropy_by_hand():
    # a, a, b, NA: 1/2 ln 2 + 2 x 1/4 ln 4 = 1.03972
    assert entropy_of_counts([2, 1, 1]) == pytest.approx(1.0397207708, abs=1e-9)
    assert entropy_of_counts([7]) == 0.0
    assert math.isnan(entropy_of_counts([]))
    assert entropy_of_counts([3, 0]) == 0.0


def test_kinds_among_k_draws_by_hand():
    # a, a, b: of two draws aa (1/3) shows one kind, ab (2/3) two: 5/3
    assert distinct_of([2, 1], 2) == pytest.approx(5 / 3, abs=1e-12)
    assert distinct_of([2, 1], 1) == pytest.approx(1.0)
    assert distinct_of([2, 1], 3) == pytest.approx(2.0)
    assert math.isnan(distinct_of([2, 1], 4))
