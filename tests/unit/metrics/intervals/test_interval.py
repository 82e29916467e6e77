from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.differences import gap_interval
from sage_cli.metrics.intervals.interval import (
    Interval,
    Resampling,
    in_columns,
    narrower,
    ranked,
    tail_rank,
)
from sage_cli.metrics.intervals.resampling import gaffke, studentised

GAPS = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.0, 0.01, 0.25, 0.5, 1.0]), min_size=2)


@settings(max_examples=60)
@given(GAPS, st.sampled_from([0.8, 0.95]), st.integers(0, 9))
def test_zero_lies_outside_exactly_where_p_is_small(
    gaps: list[float], confidence: float, seed: int
) -> None:
    gap_PK = np.stack([gaps, np.asarray(gaps) / 3 + 0.1], axis=1)
    how = Resampling(confidence, 199, seed)
    for found in (
        gaffke(gap_PK, (-1, 1), how),
        studentised(gap_PK, how),
        gap_interval(gap_PK, how),
    ):
        outside_K = (found.low_K > 0) | (found.high_K < 0)
        np.testing.assert_array_equal(outside_K, found.p_K <= 1 - confidence + 1e-12)
        assert (found.low_K <= gap_PK.mean(axis=0) + 1e-12).all()
        assert (found.high_K >= gap_PK.mean(axis=0) - 1e-12).all()


def test_tail_rank_by_hand() -> None:
    # .025 of 1,999 draws and the observed value is 50 of 2,000; of 2,000 and one it is 50.025
    assert (tail_rank(0.025, 1_999), tail_rank(0.025, 2_000)) == (50, 50)
    assert tail_rank((1 - 0.95) / 2, 39) == 1
    with pytest.raises(MetricError, match="38 resamples are too few") as caught:
        tail_rank(0.025, 38)
    assert caught.value.next_step == "set evaluation.bootstrap to 40 or more"


def test_the_narrower_ends_and_the_smaller_p() -> None:
    one = Interval(np.array([0.1]), np.array([0.4]), np.array([0.02]))
    other = Interval(np.array([-0.1]), np.array([0.3]), np.array([0.2]))
    both = narrower(one, other)
    assert (both.low_K[0], both.high_K[0], both.p_K[0]) == (0.1, 0.3, 0.02)


def test_columns_in_blocks_are_the_columns_at_once() -> None:
    values_PK = np.random.default_rng(0).random((9, 7))
    widths: list[int] = []

    def work(columns: slice) -> Interval:
        widths.append(values_PK[:, columns].shape[1])
        return gaffke(
            values_PK[:, columns], (0, 1), Resampling(confidence=0.9, resamples=99, seed=3)
        )

    parts, whole = in_columns(work, 7, 3), work(slice(None))
    assert widths == [3, 3, 1, 7]
    np.testing.assert_allclose(parts.low_K, whole.low_K, rtol=1e-12)
    np.testing.assert_allclose(parts.high_K, whole.high_K, rtol=1e-12)


def test_ranked_from_either_end() -> None:
    draws_RK = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 4.0]])
    assert ranked(draws_RK, 1).tolist() == [1, 0]
    assert ranked(draws_RK, 2).tolist() == [2, 4]
    assert ranked(draws_RK, -1).tolist() == [3, 5]
