"""pass^k, G-Pass@k and Cover@tau."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, pass_at_k, pooled
from sage_cli.metrics.estimators import (
    RIGHT,
    all_right_at_k,
    covered_at,
    curve_ks,
    distinct_of,
    entropy_of_counts,
    g_pass_at_k,
    maj_at_k,
    powers_up_to,
)


def test_counts_are_ordered_and_pooled_by_id_and_frozen():
    one = Counts(("a", "b"), [4, 8], [1, 2])
    two = Counts(("b", "a"), [8, 4], [5, 0])
    assert two.ordered(one.problem_ids).c_P.tolist() == [0, 5]
    both = pooled([one, two])
    assert both.n_P.tolist() == [8, 16]
    assert both.c_P.tolist() == [1, 7]
    one, two = Counts(("a", "b"), [4, 4], [1, 1]), Counts(("a",), [4], [1])
    with pytest.raises(MetricError, match="1 are on one side only, for example 'b'"):
        one.ordered(two.problem_ids)
    with pytest.raises(MetricError, match="for example 'b'"):
        two.ordered(one.problem_ids)
    n_P = np.array([4, 4])
    counts = Counts(("a", "b"), n_P, [1, 1])
    n_P[0] = 0
    assert counts.n_P.tolist() == [4, 4]
    with pytest.raises(ValueError, match="read-only"):
        counts.c_P[0] = 2


def test_the_ks_of_a_curve_end_at_n():
    assert curve_ks(5) == (1, 2, 3, 4, 5)
    assert curve_ks(1000, (300,)) == (*range(1, 257), 300, 512)
    assert curve_ks(0) == ()
    assert [powers_up_to(n) for n in (1, 7, 8)] == [(1,), (1, 2, 4), (1, 2, 4, 8)]


@pytest.mark.parametrize(
    ("ids", "n", "c", "said"),
    [
        (("a", "a"), [4, 4], [1, 1], "'a' is counted twice"),
        (("a",), [4], [5], "5 correct of 4 samples"),
        (("a",), [4], [-1], "-1 correct of 4 samples"),
        (("a", "b"), [4], [1], "2 problems, but n_P"),
        (("a",), [4], [0.5], "whole"),
    ],
)
def test_refuses_impossible_counts(ids, n, c, said):
    with pytest.raises(MetricError, match=said):
        Counts(ids, n, c)


def exact(n, c, k):
    """Chen et al. 2021 in rational arithmetic."""
    return 1 - Fraction(comb(n - c, k), comb(n, k))


def test_equals_exact_arithmetic_for_every_small_case():
    for n in range(1, 41):
        ks = np.arange(1, n + 1)
        found_CK = pass_at_k(n, np.arange(n + 1), ks)
        expected_CK = [[float(exact(n, c, int(k))) for k in ks] for c in range(n + 1)]
        np.testing.assert_allclose(found_CK, expected_CK, rtol=1e-14, atol=0)


@given(st.data())
def test_equals_exact_arithmetic_for_random_n(data):
    n = data.draw(st.integers(1, 10_000))
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact(n, c, k)), rel=1e-12, abs=0)


@given(st.integers(1, 300), st.data())
def test_is_monotone_and_meets_its_ends(n, data):
    c = data.draw(st.integers(0, n))
    pass_K = pass_at_k(n, c, np.arange(1, n + 1))
    assert pass_K[0] == c / n
    assert pass_K[-1] == float(c > 0)
    assert (np.diff(pass_K) >= 0).all()
    assert pass_K.min() >= 0
    assert pass_K.max() <= 1


def test_shapes_follow_n_and_c_then_k_and_each_problem_keeps_its_n():
    assert isinstance(pass_at_k(4, 2, 1), float)
    assert pass_at_k([4, 8], 2, 1).shape == (2,)
    assert pass_at_k(4, 2, [1, 2, 4]).shape == (3,)
    assert pass_at_k([4, 8], [2, 2], [1, 2, 4]).shape == (2, 3)
    assert pass_at_k([[4], [8]], [[0, 1, 2]], [1, 4]).shape == (2, 3, 2)
    assert pass_at_k([], [], [1, 2]).shape == (0, 2)
    n_P, c_P, ks = [7, 300, 12, 7], [3, 1, 12, 0], [5, 1, 5]
    expected = [[float(exact(n, c, k)) for k in ks] for n, c in zip(n_P, c_P, strict=True)]
    np.testing.assert_allclose(pass_at_k(n_P, c_P, ks), expected, rtol=1e-14)
    with pytest.raises(MetricError) as caught:
        pass_at_k(64, 3, 256)
    assert caught.value.next_step == "use k up to 64, or sample at least 256 per problem"


@pytest.mark.parametrize(("n", "c", "k", "said"), [
    (4, 2, 5, "pass@5 is undefined for a problem with 4 samples"),
    ([9, 4], [2, 2], [1, 5], "pass@5 is undefined for a problem with 4 samples"),
    (4, 5, 1, "n = 4, c = 5"),
    (4, -1, 1, "c = -1"),
    (-4, -5, 1, "n = -4"),
    (0, 0, 1, "0 samples"),
    (4, 2, 0, "at least 1"),
    (4, 2, -1, "at least 1"),
    (4, 1.5, 1, "whole"),
    (4, float("nan"), 1, "whole"),
    (float("inf"), 1, 1, "whole"),
    (4, "two", 1, "whole"),
    ([4, 4], [1, 1, 1], 1, "shape"),
    (4, 2, [[1, 2]], "1-d"),
])  # fmt: skip
def test_refuses_what_is_undefined(n, c, k, said):
    with pytest.raises(MetricError, match=said) as caught:
        pass_at_k(n, c, k)
    assert isinstance(caught.value, ValueError)


N, C = np.array([5, 5, 5]), np.array([0, 3, 5])


def test_shares_of_k_that_are_right_by_hand():
    # 3 of 5 right: C(3,1)/C(5,1) = 3/5, C(3,2)/C(5,2) = 3/10, C(3,4) = 0
    expected = [[0, 0, 0], [3 / 5, 3 / 10, 0], [1, 1, 1]]
    np.testing.assert_allclose(all_right_at_k(N, C, [1, 2, 4]), expected, atol=1e-12)
    # half of 4 are 2 of 4: 1 - P(1 right of 4) - P(0) = 1 - 3 C(2,3) / 5 - 0 = 1 (two are wrong)
    # three quarters are 3 of 4: C(3,3) C(2,1) / C(5,4) = 2/5
    assert g_pass_at_k(N, C, [4], 0.5)[:, 0] == pytest.approx([0, 1, 1])
    assert g_pass_at_k(N, C, [4], 0.75)[:, 0] == pytest.approx([0, 2 / 5, 1])
    # .3 of 10 are 3, though 0.3 * 10 may be above 3 in floating point; 7 of 10 are .7 * 10
    assert g_pass_at_k(np.array([10]), np.array([7]), [10], 0.7)[0, 0] == pytest.approx(1)
    np.testing.assert_allclose(g_pass_at_k(N, C, [1, 3], 1e-6), pass_at_k(N, C, [1, 3]), atol=1e-12)
    # shares 0, .6, 1
    found = covered_at(N, C, [0.1, 0.6, 0.61, 1.0])
    assert found.tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
    with pytest.raises(MetricError, match="G-Pass@6 is undefined"):
        g_pass_at_k(N, C, [6], 0.5)
    with pytest.raises(MetricError, match="tau must be above 0"):
        covered_at(N, C, [0.0])


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


def test_majorities_are_exact_where_nothing_is_drawn_by_lot():
    votes = {RIGHT: 2, "5": 2, "7": 2, None: 3}
    # three ways tied at k = n, and 2 of 9 at k = 1
    assert maj_at_k(votes, [1, 9]).tolist() == pytest.approx([2 / 9, 1 / 3], abs=1e-15)
    # without a wrong answer one right vote wins: pass@2 of 1 in 4 = 1 - C(3,2)/C(4,2) = 1/2
    assert maj_at_k({RIGHT: 1, None: 3}, [1, 2, 4]).tolist() == pytest.approx([0.25, 0.5, 1.0])
    assert maj_at_k({"5": 3, None: 1}, [1, 2, 4]).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(MetricError, match="maj@4 is undefined for a problem with 3 samples"):
        maj_at_k({RIGHT: 2, "5": 1}, [4])


@pytest.mark.parametrize(
    "votes", [{RIGHT: 3, "5": 2, "7": 2, None: 2}, {RIGHT: 2, "5": 6}, {RIGHT: 5, "5": 1, None: 2}]
)
def test_against_enumeration(votes):
    ks = [1, 2, 3, 5, sum(votes.values())]
    expected = [enumerated(votes, k) for k in ks]
    # 20,000 orders: a standard deviation of at most 0.5 / sqrt(20000) = 0.0035, four of them
    assert maj_at_k(votes, ks, resamples=20000).tolist() == pytest.approx(expected, abs=0.014)


def test_entropy_and_kinds_among_k_draws_by_hand():
    # a, a, b, NA: 1/2 ln 2 + 2 x 1/4 ln 4 = 1.03972
    assert entropy_of_counts([2, 1, 1]) == pytest.approx(1.0397207708, abs=1e-9)
    assert entropy_of_counts([7]) == 0.0
    assert math.isnan(entropy_of_counts([]))
    assert entropy_of_counts([3, 0]) == 0.0
    # a, a, b: of two draws aa (1/3) shows one kind, ab (2/3) two: 5/3
    assert distinct_of([2, 1], 2) == pytest.approx(5 / 3, abs=1e-12)
    assert distinct_of([2, 1], 1) == pytest.approx(1.0)
    assert distinct_of([2, 1], 3) == pytest.approx(2.0)
    assert math.isnan(distinct_of([2, 1], 4))
