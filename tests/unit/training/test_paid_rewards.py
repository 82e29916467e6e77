"""The sum of the rewards: weights, absent parts, records."""

from __future__ import annotations

import math

import torch

from sage_cli.training.rewards import Paid

NAN = math.nan


def paid(*weights: float, graded: bool = True) -> Paid:
    names = ("grade", "brevity", "tests")[: len(weights)]
    return Paid(names, weights, (), graded)


def test_the_grade_alone_is_handed_through():
    raw_BF = torch.tensor([[1.0], [0.0]])
    usual = paid(1.0, graded=False)
    assert usual.weighted(raw_BF, 2) is raw_BF
    assert usual.record(raw_BF, raw_BF, 2) == {}


def test_weights_and_absent_parts_by_hand():
    """1 + .2 x .5 = 1.1; 0 + .2 x 1 = .2; 1 alone; -.5 of nothing is 0."""
    raw_BF = torch.tensor([[1.0, 0.5, NAN], [0.0, 1.0, NAN], [1.0, NAN, 2.0], [0.0, NAN, NAN]])
    weighted_BF = paid(1.0, 0.2, -0.5).weighted(raw_BF, 2)
    torch.testing.assert_close(weighted_BF.sum(dim=1), torch.tensor([1.1, 0.2, 0.0, 0.0]))


def test_a_completion_without_rewards_has_its_groups_mean():
    """Of the first group .2 and .4 are known: the third gets .3. Of the second nothing is."""
    raw_BF = torch.tensor([[0.0, 0.2], [1.0, 0.4], [1.0, NAN], [1.0, NAN], [0.0, NAN], [0.0, NAN]])
    total_B = paid(0.0, 1.0).weighted(raw_BF, 3).sum(dim=1)
    torch.testing.assert_close(total_B, torch.tensor([0.2, 0.4, 0.3, 0.0, 0.0, 0.0]))


def test_a_punishment_of_length_says_nothing_of_a_completion():
    """Of 1, 1 and 0 - .5 the mean is .5, which the third gets whatever its length."""
    both = Paid(("tests", "overlong"), (1.0, 1.0), (), graded=True)
    raw_BF = torch.tensor([[1.0, 0.0], [1.0, 0.0], [NAN, -0.25], [0.0, -0.5]])
    total_B = both.weighted(raw_BF, 4).sum(dim=1)
    torch.testing.assert_close(total_B, torch.tensor([1.0, 1.0, 0.5, -0.5]))


def test_records_by_hand():
    """Groups (1.1, 1.1) and (.2, 0): half are equal, the mean is 2.4 / 4."""
    raw_BF = torch.tensor([[1.0, 0.5], [1.0, 0.5], [0.0, 1.0], [0.0, NAN]])
    both = paid(1.0, 0.2)
    found = both.record(raw_BF, both.weighted(raw_BF, 2), 2)
    expected = {"reward/grade": 0.5, "reward/brevity": 2 / 3, "reward/total": 0.6,
                "groups/zero_variance": 0.5}  # fmt: skip
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert math.isclose(found[name], value, rel_tol=1e-6)


def test_a_grade_that_is_not_paid_is_no_part_of_the_reward():
    raw_BF = torch.tensor([[1.0, NAN], [0.0, NAN]])
    watched = paid(0.0, 1.0)
    found = watched.record(raw_BF, watched.weighted(raw_BF, 2), 2)
    assert found == {"reward/total": 0.0, "groups/zero_variance": 1.0}
    assert watched.named(raw_BF[:1]) == [{"grade": 1.0, "brevity": None}]
    assert paid(1.0, graded=False).named(raw_BF[:, :1]) == []
