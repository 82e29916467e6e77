"""Problems with the right samples of each policy, and one problem side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shown_runs import stored_run

from sage_cli.errors import StoreError
from sage_cli.view.api import Api
from sage_cli.view.problems_view import dissimilar_first

BASE, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-cccccccc"
BOTH = f"{BASE},{PLAIN}"


def test_right_samples_of_each_policy(api):
    found = api.answer("problems", {"policies": BOTH})
    assert [row["right"][BASE] for row in found["problems"]] == [2, 2, 2, 2, 2, 0]
    assert [row["right"][PLAIN] for row in found["problems"]] == [5, 5, 5, 5, 5, 0]
    assert {row["samples"][PLAIN] for row in found["problems"]} == {8}


def test_a_problem_side_by_side(api):
    problem = api.answer("problems", {"policies": BOTH})["problems"][0]["problem"]
    found = api.answer("problem", {"policies": BOTH, "problem": problem, "grade": "right"})
    base, plain = found["policies"]
    assert (base["total"], plain["total"]) == (2, 5)
    assert base["samples"] == 8
    assert base["grades"] == {"right": 2, "wrong": 6}  # of all samples, not of those that fit
    assert base["answers"] == {"<b>6</b>": 6, "6": 2}
    assert found["question"]
    assert found["gold"]


def test_dissimilar_completions_first(tmp_path):
    run = stored_run(
        tmp_path, "one", "a", lambda _, at: ("other" if at == 5 else "the same", "right")
    )
    api = Api(tmp_path)
    problem = api.answer("problems", {"policies": run.id})["problems"][0]["problem"]
    asked = {"policies": run.id, "problem": problem, "limit": "3"}
    plain = api.answer("problem", asked)["policies"][0]["rows"]
    other = api.answer("problem", {**asked, "order": "dissimilar"})["policies"][0]["rows"]
    assert [row["index"] for row in plain] == [0, 1, 2]
    assert [row["index"] for row in other] == [0, 5, 1]


def test_an_unknown_problem_is_named(api):
    with pytest.raises(StoreError, match="'nothing'"):
        api.answer("problem", {"policies": BOTH, "problem": "nothing"})


def test_equal_texts_come_last():
    # pairs of adjacent words: a b shares nothing with x y, and all with the second a b
    assert dissimilar_first(["a b", "a b", "x y"]) == [0, 2, 1]


def test_the_farthest_from_all_before_it_is_next():
    # {·a, ab, bc, c·} against {·a, ab, bd, d·}: 2 of 6, so 2/3 apart; against p q: 1 apart
    assert dissimilar_first(["a b c", "a b d", "p q"]) == [0, 2, 1]


@given(st.lists(st.text(max_size=30), max_size=12))
def test_every_text_has_its_place_once(texts):
    assert sorted(dissimilar_first(texts)) == list(range(len(texts)))
