"""maj@k against enumeration by hand."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.counts.answers import RIGHT, distinct_of, entropy_of_counts, maj_at_k


def enumerated(votes, k):
    """Every k of the samples, ties by lot."""
    samples = [answer for answer, count in votes.items() for _ in range(count)]
    chances = []
    for chosen in combinations(samples, k):
        counted = Counter(answer for answer in chosen if answer is not None)
        most = max(counted.values(), default=0)
        winners = [answer for answer, count in counted.items() if count == most]
        chances.append(winners.count(RIGHT) / len(winners) if winners else 0)
    return sum(chances) / len(chances)


def test_by_hand():
    # of RRW: one sample 2/3; all three elect R; of pairs RR wins, RW ties twice: 1/3 + 2/3 x 1/2
    found = maj_at_k({RIGHT: 2, "5": 1}, [1, 2, 3], resamples=20000)
    assert found[[0, 2]].tolist() == [2 / 3, 1.0]
    assert found[1] == pytest.approx(2 / 3, abs=0.01)


def test_exact_where_nothing_is_drawn_by_lot():
    votes = {RIGHT: 2, "5": 2, "7": 2, None: 3}
    # three ways tied at k = n, and 2 of 9 at k = 1
    assert maj_at_k(votes, [1, 9]).tolist() == pytest.approx([2 / 9, 1 / 3], abs=1e-15)
    # without a wrong answer one right vote wins: pass@2 of 1 in 4 = 1 - C(3,2)/C(4,2) = 1/2
    assert maj_at_k({RIGHT: 1, None: 3}, [1, 2, 4]).tolist() == pytest.approx([0.25, 0.5, 1.0])
    assert maj_at_k({"5": 3, None: 1}, [1, 2, 4]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "votes", [{RIGHT: 3, "5": 2, "7": 2, None: 2}, {RIGHT: 2, "5": 6}, {RIGHT: 5, "5": 1, None: 2}]
)
def test_against_enumeration(votes):
    ks = [1, 2, 3, 5, sum(votes.values())]
    expected = [enumerated(votes, k) for k in ks]
    # 20,000 orders: a standard deviation of at most 0.5 / sqrt(20000) = 0.0035, four of them
    assert maj_at_k(votes, ks, resamples=20000).tolist() == pytest.approx(expected, abs=0.014)


def test_k_above_n_is_refused():
    with pytest.raises(MetricError, match="maj@4 is undefined for a problem with 3 samples"):
        maj_at_k({RIGHT: 2, "5": 1}, [4])


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
