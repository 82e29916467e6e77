from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import pattern_frequency


def test_by_hand() -> None:
    # Solved problems: 1/2 and 3/4 and 0/5; the unsolved one doesn't count.
    found = pattern_frequency([1, 3, 0, 0], [2, 4, 5, 0])
    assert found.mean == pytest.approx(5 / 12, abs=1e-15)
    assert found.problems == 3
    assert 0 <= found.low < found.mean < found.high <= 1


def test_nothing_solved_is_undefined() -> None:
    found = pattern_frequency([0, 0], [0, 0])
    assert np.isnan([found.mean, found.low, found.high]).all()
    assert found.problems == 0


@pytest.mark.parametrize(("shown", "right"), [([3], [2]), ([-1], [2]), ([1], [2, 2])])
def test_refuses_impossible_numbers(shown: list[int], right: list[int]) -> None:
    with pytest.raises(MetricError):
        pattern_frequency(shown, right)
