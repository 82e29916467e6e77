"""Curves and differences are those that `sage passk` and `sage compare` compute."""

import pytest
from shown_runs import SAMPLES, by_chance, stored_run

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.view.api import Api
from sage_cli.view.passk_view import curve_points

BASE, BRANCH, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"


def test_curves_have_few_ks_and_the_settings_of_the_measurement(tmp_path):
    assert curve_points(8) == (1, 2, 3, 4, 5, 6, 7, 8)
    points = curve_points(4096)
    assert points[0] == 1
    assert points[-1] == 4096
    assert {1 << place for place in range(13)} <= {*points}
    assert len(points) < 60
    assert curve_points(8, "1,8") == (1, 8)
    run = stored_run(tmp_path, "one", "a", by_chance(2))
    measured = Api(tmp_path).policies.measured(run.id, "arithmetic")
    assert measured.config.evaluation.samples == SAMPLES
    assert load(("tiny",)).config.evaluation.samples != SAMPLES


def test_curves_differences_and_problems_of_policies_side_by_side(api):
    found = api.answer("passk", {"policies": f"{BASE},{PLAIN}"})
    assert found["k"] == list(range(1, SAMPLES + 1))
    base, plain = found["curves"]
    # two right of eight in five of six problems: 5/6 * 2/8; five of eight: 5/6 * 5/8
    assert base["pass@k"][0] == pytest.approx(5 / 24)
    assert plain["pass@k"][0] == pytest.approx(25 / 48)
    # with eight of eight attempts, every problem that has a right sample
    assert base["pass@k"][-1] == pytest.approx(5 / 6)
    assert base["graded"] == base["wanted"] == 48
    assert found["provenance"]["samples"][0]["engine"] == "test"
    assert api.answer("passk", {"policies": BASE})["benchmark"] == "arithmetic"
    found = api.answer("passk", {"policies": BASE, "benchmark": "aime"})
    assert found["curves"] == []
    assert "was not measured on aime: `sage passk" in found["absent"][0]["why"]
    found = api.answer("difference", {"a": PLAIN, "b": BASE, "benchmark": "arithmetic", "k": "1,8"})
    # 5/6 * (5/8 - 2/8), and nothing at k = 8
    assert found["mean"] == pytest.approx([5 / 16, 0])
    assert found["low"][0] < 5 / 16 < found["high"][0]
    assert found["problems"] == 6
    other = api.answer("difference", {"a": BASE, "b": PLAIN, "benchmark": "arithmetic", "k": "1"})
    assert other["mean"] == pytest.approx([-5 / 16])
    with pytest.raises(StoreError, match="nobody"):
        api.answer("difference", {"a": BASE, "b": "nobody", "benchmark": "arithmetic"})
    with pytest.raises(ConfigurationError, match="is named twice"):
        api.answer("difference", {"a": BASE, "b": BASE, "benchmark": "arithmetic"})
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


def test_a_policy_that_was_not_measured_is_absent_with_the_command(tmp_path):
    one = stored_run(tmp_path, "one", "a", by_chance(2))
    other = stored_run(tmp_path, "other", "b")
    found = Api(tmp_path).answer("passk", {"policies": f"{one.id},{other.id},nobody"})
    assert [curve["policy"] for curve in found["curves"]] == [one.id]
    why = {row["policy"]: row["why"] for row in found["absent"]}
    assert "no sample is stored and graded" in why[other.id]
    assert "there is no run 'nobody'" in why["nobody"]


BASE, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-cccccccc"
BOTH = f"{BASE},{PLAIN}"
