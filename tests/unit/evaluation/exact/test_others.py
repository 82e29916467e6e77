"""Samples that are none of the listed texts."""

from __future__ import annotations

import math

from sage_cli.evaluation.exact.others import others_of

LISTED = {"a": {"S": "S: 6"}, "b": {"S": "S: 8", "D": "D: 8"}}


def test_others_are_counted_by_problem() -> None:
    samples = [
        ("a", "S: 6", True),
        ("a", "in my head: 6", True),
        ("a", "7", False),
        ("b", "D: 8", True),
        ("b", "S: 9", False),
    ]
    found = others_of(samples, LISTED, ["a", "b"])
    assert found.m_P.tolist() == [2, 1]
    assert found.c_P.tolist() == [1, 0]
    assert found.share == 1 / 3  # one of three right samples
    assert math.isnan(others_of([], LISTED, ["a", "b"]).share)
