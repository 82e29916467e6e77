"""Pages of samples: filters on columns, search in texts, bounds."""

import pytest
from shown_runs import LONG, PROBLEMS, SAMPLES

from sage_cli.errors import StoreError

BRANCH, PLAIN = "rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"


def asked(api, **values):
    return api.answer("samples", {"policy": PLAIN, **values})


def test_samples_come_a_page_at_a_time_or_of_a_problem_long_ones_cut(api):
    first, second = asked(api, limit="20"), asked(api, limit="20", offset="20")
    assert first["total"] == PROBLEMS * SAMPLES
    places = [(row["problem"], row["index"]) for row in first["rows"] + second["rows"]]
    assert len({*places}) == 40
    assert [index for _, index in places[:SAMPLES]] == list(range(SAMPLES))
    assert asked(api, offset="1000")["rows"] == []
    found = asked(api, limit="20")
    assert set(found["problems"]) == {row["problem"] for row in found["rows"]}
    for id_, problem in found["problems"].items():
        whole = api.answer("problem", {"policies": PLAIN, "problem": id_})
        assert (problem["question"], problem["gold"]) == (whole["question"], whole["gold"])
    # five right samples of each problem but the last
    assert asked(api)["grades"] == {"right": 5 * 5, "wrong": 48 - 25}
    problem = asked(api)["rows"][0]["problem"]
    found = asked(api, problem=problem, text="of 0")
    assert found["candidates"] == SAMPLES
    assert {row["problem"] for row in found["rows"]} == {problem}
    problem = api.answer("samples", {"policy": BRANCH})["rows"][0]["problem"]
    rows = api.answer("samples", {"policy": BRANCH, "problem": problem})["rows"]
    assert len(rows[1]["text"]) == 20_000
    assert rows[1]["characters"] == len(LONG)
    place = {"policy": BRANCH, "problem": problem, "seed": "0", "index": "1"}
    assert api.answer("sample", place)["text"] == LONG
    with pytest.raises(StoreError, match="sample 99"):
        api.answer("sample", {**place, "index": "99"})


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ({"grade": "right"}, 25),
        ({"grade": "unparseable"}, 0),
        ({"truncated": "1"}, 6),  # the last sample of each problem
        ({"truncated": "0", "grade": "wrong"}, 48 - 25 - 6),
        ({"shortest": "16"}, 12),  # tokens are 10 + index: indices 6 and 7
        ({"longest": "10"}, 6),
        ({"shortest": "11", "longest": "12", "grade": "right"}, 10),
        ({"seed": "1"}, 0),
        ({"text": "COMPLETION 3"}, 6),
        ({"text": "completion 3", "grade": "wrong"}, 1),
        ({"text": "nowhere"}, 0),
    ],
)
def test_filters(api, values, total):
    found = asked(api, **values)
    assert found["total"] == total
    assert len(found["rows"]) == min(total, 25)


def test_a_search_says_how_far_it_went(api, monkeypatch):
    monkeypatch.setattr("sage_cli.view.samples_view.MOST_SEARCHED", 10)
    found = asked(api, text="completion")
    assert (found["candidates"], found["searched"], found["total"]) == (48, 10, 10)
