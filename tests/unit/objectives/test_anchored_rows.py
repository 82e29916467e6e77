"""Rows of two groups of four, r = [1, 0, 0, 0] and [1, 1, 1, 1]."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sage_cli.objectives import anchored_rows, equal_rows

RIGHT_B = torch.tensor([1, 0, 0, 0, 1, 1, 1, 1]).bool()
GROUP_RIGHT_B = torch.tensor([0.25] * 4 + [1.0] * 4)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("all", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("wrong", [0, 1, 1, 1, 0, 0, 0, 0]),
        ("right", [1, 0, 0, 0, 1, 1, 1, 1]),
        ("informative", [1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_which_rows_are_held(rows: Any, expected: list[int]) -> None:
    assert anchored_rows(rows, RIGHT_B, GROUP_RIGHT_B).int().tolist() == expected


def test_a_group_without_a_right_answer_is_equal_too() -> None:
    assert equal_rows(torch.tensor([0.0, 0.125, 1.0])).tolist() == [True, False, True]
