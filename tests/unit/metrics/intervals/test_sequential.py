"""Intervals at several looks: their levels, and what a look says."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.intervals.sequential import Look, look_levels, looks_at, spent

LOOKS = (8, 12, 16, 20, 24)


def test_little_is_spent_while_few_values_are_there() -> None:
    # .05 (8/24)² = .05 / 9, .05 (12/24)² = .0125
    assert spent(8, 24, 0.05) == pytest.approx(0.05 / 9)
    assert spent(12, 24, 0.05) == pytest.approx(0.0125)
    assert spent(24, 24, 0.05) == 0.05


def test_a_single_look_is_students() -> None:
    assert look_levels((10,), 0.05) == (0.05,)
    # mean 2.5, variance ((1.5² + .5²) 2) / 3 = 5/3, error sqrt(5/3/4) = .6455, t of 3 is 3.182
    (look,) = looks_at(np.array([1.0, 2.0, 3.0, 4.0]), (4,))
    assert (look.mean, look.low, look.high) == pytest.approx((2.5, 0.446, 4.554), abs=1e-3)


def test_the_first_look_has_its_share_and_later_ones_no_more_than_alpha() -> None:
    levels = look_levels(LOOKS, 0.05)
    assert levels[0] == pytest.approx(0.05 / 9)
    assert list(levels) == sorted(levels)
    # each look alone has at least the share of alpha that it spends, and less than alpha
    shares = np.diff([0, *(spent(count, 24, 0.05) for count in LOOKS)])
    assert all(share <= level < 0.05 for share, level in zip(shares, levels, strict=True))


def test_in_one_of_twenty_studies_some_look_excludes_the_mean() -> None:
    values = np.random.default_rng(7).normal(3.0, 2.0, (4_000, 24))
    outside = [
        any(not look.low <= 3 <= look.high for look in looks_at(one, LOOKS)) for one in values
    ]
    # three standard errors: 3 sqrt(.05 * .95 / 4000) = .0103
    assert np.mean(outside) == pytest.approx(0.05, abs=0.0104)


def test_looks_come_with_their_values() -> None:
    values = np.arange(13, dtype=float)
    assert looks_at(values[:7], LOOKS) == []
    first, second = looks_at(values, LOOKS)
    assert (first.count, first.mean) == (8, 3.5)  # 0 to 7
    assert (second.count, second.mean) == (12, 5.5)  # 0 to 11, the thirteenth is between looks


@pytest.mark.parametrize(
    ("low", "high", "excludes", "within"),
    [
        (0.001, 0.02, True, False),
        (-0.02, -0.001, True, False),
        (-0.009, 0.009, False, True),
        (-0.011, 0.009, False, False),
        (0.001, 0.009, True, True),
    ],
)
def test_what_a_look_says(low: float, high: float, excludes: bool, within: bool) -> None:
    look = Look(8, (low + high) / 2, low, high, 0.05)
    assert (look.excludes_zero, look.lies_within(0.01)) == (excludes, within)
    assert not look.lies_within(None)
