"""Ranks within groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.sampling.decoder.prompts import ranks


def test_ranks_count_from_nought_in_order_of_appearance() -> None:
    ranks_B, largest = ranks(np.array([2, 0, 2, 2, 0]), groups=4)
    assert ranks_B.tolist() == [0, 0, 1, 2, 1]
    assert largest == 3


@given(st.lists(st.integers(0, 5), max_size=40))
def test_members_fill_their_group_without_gaps(groups: list[int]) -> None:
    groups_B = np.array(groups, dtype=np.int64)
    ranks_B, largest = ranks(groups_B, groups=6)
    for group in range(6):
        size = groups.count(group)
        assert ranks_B[groups_B == group].tolist() == list(range(size))
        assert size <= largest
