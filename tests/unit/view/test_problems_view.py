"""Problems with the right samples of each policy, and one problem side by side."""

import pytest

from sage_cli.errors import StoreError

BASE, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-cccccccc"
BOTH = f"{BASE},{PLAIN}"


def test_problems_with_the_right_samples_of_each_policy_side_by_side(api):
    found = api.answer("problems", {"policies": BOTH})
    assert [row["right"][BASE] for row in found["problems"]] == [2, 2, 2, 2, 2, 0]
    assert [row["right"][PLAIN] for row in found["problems"]] == [5, 5, 5, 5, 5, 0]
    assert {row["samples"][PLAIN] for row in found["problems"]} == {8}
    problem = api.answer("problems", {"policies": BOTH})["problems"][0]["problem"]
    found = api.answer("problem", {"policies": BOTH, "problem": problem, "grade": "right"})
    base, plain = found["policies"]
    assert (base["total"], plain["total"]) == (2, 5)
    assert base["samples"] == 8
    assert base["grades"] == {"right": 2, "wrong": 6}  # of all samples, not of those that fit
    assert base["answers"] == {"<b>6</b>": 6, "6": 2}
    assert found["question"]
    assert found["gold"]
    with pytest.raises(StoreError, match="'nothing'"):
        api.answer("problem", {"policies": BOTH, "problem": "nothing"})
