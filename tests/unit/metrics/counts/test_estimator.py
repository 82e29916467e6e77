from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.errors import MetricError
from sage_cli.metrics import pass_at_k


def exact(n: int, c: int, k: int) -> Fraction:
    """Chen et al. 2021 in rational arithmetic."""
    return 1 - Fraction(comb(n - c, k), comb(n, k))


def test_equals_exact_arithmetic_for_every_small_case() -> None:
    for n in range(1, 41):
        ks = np.arange(1, n + 1)
        found_CK = pass_at_k(n, np.arange(n + 1), ks)
        expected_CK = [[float(exact(n, c, int(k))) for k in ks] for c in range(n + 1)]
        np.testing.assert_allclose(found_CK, expected_CK, rtol=1e-14, atol=0)


@given(st.data())
def test_equals_exact_arithmetic_for_random_n(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4096))
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact(n, c, k)), rel=1e-12, abs=0)


@pytest.mark.parametrize(("c", "k"), [(1, 1), (1, 9_999), (3, 5_000), (9_000, 2), (17, 333)])
def test_is_stable_at_ten_thousand_samples(c: int, k: int) -> None:
    expected = float(exact(10_000, c, k))
    assert pass_at_k(10_000, c, k) == pytest.approx(expected, rel=1e-12, abs=0)


def test_one_hand_derived_value() -> None:
    # 4 samples, 1 right, 2 drawn: 3 of the 6 pairs hold the right one.
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5, abs=1e-15)


@given(st.integers(1, 300), st.data())
def test_is_monotone_and_meets_its_ends(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    pass_K = pass_at_k(n, c, np.arange(1, n + 1))
    assert pass_K[0] == c / n
    assert pass_K[-1] == float(c > 0)
    assert (np.diff(pass_K) >= 0).all()
    assert pass_K.min() >= 0
    assert pass_K.max() <= 1


def test_shapes_follow_n_and_c_then_k() -> None:
    assert isinstance(pass_at_k(4, 2, 1), float)
    assert pass_at_k([4, 8], 2, 1).shape == (2,)
    assert pass_at_k(4, 2, [1, 2, 4]).shape == (3,)
    assert pass_at_k([4, 8], [2, 2], [1, 2, 4]).shape == (2, 3)
    assert pass_at_k([[4], [8]], [[0, 1, 2]], [1, 4]).shape == (2, 3, 2)
    assert pass_at_k([], [], [1, 2]).shape == (0, 2)


def test_every_problem_keeps_its_own_n_and_ks_keep_their_order() -> None:
    n_P, c_P, ks = [7, 300, 12, 7], [3, 1, 12, 0], [5, 1, 5]
    expected = [[float(exact(n, c, k)) for k in ks] for n, c in zip(n_P, c_P, strict=True)]
    np.testing.assert_allclose(pass_at_k(n_P, c_P, ks), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("n", "c", "k", "said"),
    [
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
    ],
)
def test_refuses_what_is_undefined(n: object, c: object, k: object, said: str) -> None:
    with pytest.raises(MetricError, match=said) as caught:
        pass_at_k(n, c, k)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


def test_too_large_a_k_comes_with_the_next_step() -> None:
    with pytest.raises(MetricError) as caught:
        pass_at_k(64, 3, 256)
    assert caught.value.next_step == "ask for k up to 64, or sample at least 256 per problem"
