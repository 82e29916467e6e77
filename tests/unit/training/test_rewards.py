"""Calls of a reward function of one's own, built-in rewards, and the sum of all."""

import hashlib
import math
from types import SimpleNamespace

import pytest
import torch

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction
from sage_cli.settings.rewards import Reward
from sage_cli.training import rewards
from sage_cli.training.rewards import (
    CalledReward,
    Plurality,
    RewardSet,
    built_in_reward,
    coin,
    has_form,
    length_left,
    problem_columns,
)

PROBLEMS = [
    Problem("p", "toy", "1+1=?", "2", {"level": 3, "origin": "x", "prompts": "no"}),
    Problem("q", "toy", "1+2=?", "3", {"level": 5}),
]
BATCH = {
    "prompts": ["a", "a", "b"],
    "completions": ["2", "x", "33"],
    "completion_ids": [[1], [2], [3, 3]],
    "gold": ["2", "2", "3"],
    "trainer_state": None,
    "log_metric": print,
}


@pytest.fixture
def called(tmp_path):
    """A reward of a file with this source."""

    def make(source):
        (tmp_path / "mine.py").write_text(source)
        own = OwnFunction.parse(f"{tmp_path / 'mine.py'}:mine")
        columns = problem_columns(PROBLEMS)
        return CalledReward(f"reward 'mine' ({own.label})", own.module, own.load(), columns)

    return make


def test_it_is_called_as_trl_calls_it(called):
    reward = called(
        "seen = {}\ndef mine(**given):\n    seen.update(given)\n    return [1, .5, None]"
    )
    assert reward(row=[0, 0, 1], **BATCH) == [1.0, 0.5, None]
    seen = reward.function.__globals__["seen"]
    assert seen.pop("level") == [3, 3, 5]
    assert seen.pop("problem_id") == ["p", "p", "q"]
    assert seen.pop("question") == ["1+1=?", "1+1=?", "1+2=?"]
    assert seen == {name: value for name, value in BATCH.items() if name != "log_metric"}


@pytest.mark.parametrize(
    ("source", "paid"),
    [
        ("def mine(completions, level):\n    return level", [3.0, 3.0, 5.0]),
        ("import numpy\ndef mine(completions):\n    return numpy.ones(3)", [1.0] * 3),
        (
            "import asyncio\nasync def mine(completions):\n"
            "    await asyncio.sleep(0)\n    return [2] * 3",
            [2.0] * 3,
        ),
    ],
    ids=["without stars it gets what it names", "an array", "a coroutine"],
)
def test_what_it_returns_is_paid(called, source, paid):
    assert called(source)(row=[0, 0, 1], **BATCH) == paid


def test_a_column_that_is_not_there_is_named_before_training(called):
    with pytest.raises(
        ConfigurationError, match=r"has the argument 'levl'.*no such column \(mine.py, line 1\)"
    ) as refused:
        called("def mine(completions, levl):\n    return levl")
    assert "level, question, gold, problem_id" in refused.value.next_step


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return [1, 2]", "returns 2 rewards for 3 completions (mine.py, line 1)"),
        ("return None", "returns None for 3 completions"),
        ("return [0, 1, float('nan')]", "returns nan for completion 2 of 3, counted from 0 ('33')"),
        ("return [0, 'yes', 1]", "returns 'yes' for completion 1 of 3, counted from 0 ('x')"),
        ("return [1e39, 0, 0]", "returns 1e+39 for completion 0 of 3"),
        (
            "return [float(t) for t in completions]",
            "ValueError: could not convert string to float: 'x' (mine.py, line 2), at completion 1 "
            "of 3, counted from 0 ('x')",
        ),
        ("return 1 / (len(completions) - 3)", "at a batch of 3 completions and at none"),
    ],
)
def test_what_it_does_wrong_is_named(called, body, says):
    reward = called(f"def mine(completions, **_):\n    {body}")
    with pytest.raises(TrainingError) as refused:
        reward(row=[0, 0, 1], **BATCH)
    assert "reward 'mine' (mine.py:mine) " in refused.value.cause
    assert says in refused.value.cause
    assert "a changed file is another run" in refused.value.next_step


@pytest.mark.parametrize(
    ("answer", "text", "formed"),
    [
        ("tags", "so <SOLUTION>2</SOLUTION>\n", True),
        ("tags", "<SOLUTION> </SOLUTION>", False),
        ("tags", "<SOLUTION>2", False),
        ("tags", "2</SOLUTION><SOLUTION>", False),
        ("tags", "<SOLUTION>1</SOLUTION> no, <SOLUTION>2</SOLUTION>", False),
        ("tags", "<SOLUTION>2</SOLUTION> indeed", False),
        ("boxed", r"so \boxed{2}.", True),
        ("boxed", r"\boxed{}", False),
        ("boxed", "2", False),
    ],
)
def test_the_form_by_hand(answer, text, formed):
    assert has_form(text, load(sets=[f"prompt.answer={answer}"]).config.prompt) is formed


def test_brevity_by_hand():
    """1 - 3/12 = 3/4; nothing left at the limit."""
    assert (length_left(3, 12), length_left(12, 12), length_left(0, 12)) == (0.75, 0.0, 1.0)


def test_a_coin_is_a_hash_of_seed_step_problem_and_row():
    digest = hashlib.sha256(b'[7, 3, "p", 2]').hexdigest()
    assert coin(7, 3, "p", 2) == (int(digest[:16], 16) >> 11) / 2**53
    thrown = [
        coin(seed, step, problem, row)
        for seed in (0, 1)
        for step in range(10)
        for problem in ("p", "q", "r")
        for row in range(100)
    ]
    assert len(set(thrown)) == len(thrown)
    assert all(0 <= number < 1 for number in thrown)
    # 6,000 uniform numbers: a mean within four deviations of .0037
    assert sum(thrown) / len(thrown) == pytest.approx(0.5, abs=0.015)


def in_processes(monkeypatch, reward, count, **columns):
    """What a reward says of a batch that so many processes share."""
    size = len(columns["completions"]) // count
    whole = list(zip(columns["row"], columns["gold"], columns["completions"], strict=True))
    monkeypatch.setattr("accelerate.utils.gather_object", lambda _: whole)
    said = []
    for process in range(count):
        monkeypatch.setattr(rewards, "_first_row", lambda rows, number=process: number * rows)
        rows = slice(process * size, (process + 1) * size)
        said += reward(
            trainer_state=SimpleNamespace(global_step=columns.get("step", 0)),
            **{name: value[rows] for name, value in columns.items() if name != "step"},
        )
    return said


def test_a_coin_is_the_same_in_any_number_of_processes(monkeypatch):
    random = built_in_reward(Reward(name="random", p=0.3), load().config)
    batch = {
        "problem_id": ["p"] * 20 + ["q"] * 20,
        "completions": [""] * 40,
        "row": [0] * 40,
        "gold": [""] * 40,
    }
    said = in_processes(monkeypatch, random, 1, **batch)
    assert all(in_processes(monkeypatch, random, n, **batch) == said for n in (2, 4, 8))
    assert 4 <= sum(said) <= 20
    assert in_processes(monkeypatch, random, 1, **batch, step=1) != said


@pytest.mark.parametrize(
    ("answers", "paid"),
    [
        (["3", "4", "3", "5"], [1, 0, 1, 0]),
        # equivalent answers are one, whoever came first
        (["4", r"\frac{1}{2}", "4", "0.5", "1/2"], [0, 1, 0, 1, 1]),
        (["x+1", "1+x", "2"], [1, 1, 0]),
        # ties are all paid
        (["3", "4", "4", "3", "5"], [1, 1, 1, 1, 0]),
        (["1", "2", "3"], [1, 1, 1]),
        # what has no answer, or none that can be read, counts nowhere
        ([None, None, "3", None], [0, 0, 1, 0]),
        ([" ", "", "3", " "], [0, 0, 1, 0]),
        ([None, None], [0, 0]),
    ],
)
def test_the_most_frequent_answer_is_paid_whatever_is_right(grader, monkeypatch, answers, paid):
    def grade(golds, completions):
        return grader.grade_many(list(zip(golds, completions, strict=True)))

    texts = ["so" if a is None else f"so <SOLUTION>{a}</SOLUTION>" for a in answers]
    other = [f"<SOLUTION>{row % 2}</SOLUTION>" for row in range(len(texts))]
    columns = {
        "completions": texts + other,
        "gold": ["5"] * 2 * len(texts),
        "row": [4] * len(texts) + [9] * len(texts),
    }
    said = in_processes(monkeypatch, Plurality(grade), 1, **columns)
    assert said[: len(texts)] == paid
    assert all(
        in_processes(monkeypatch, Plurality(grade), n, **columns) == said for n in (2, len(texts))
    )


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (["rl.rewards=[{name: format, p: 0.2}]"], "p 0.2 only applies to the reward 'random'"),
        (["rl.rewards=[{name: random, p: 1}]"], "p is 1"),
        (
            ["rl.rewards=plurality", "grading.extract=text", "grading.mode=math-verify"],
            "'plurality' counts answers",
        ),
        (["rl.rewards=random", "rl.dynamic_sampling=true"], "rl.rewards doesn't pay the grade"),
    ],
)
def test_what_a_null_reward_can_not_be_is_named(sets, reason):
    with pytest.raises(ConfigurationError, match=reason):
        load(sets=sets)


def test_the_coins_p_is_part_of_a_run():
    said = [load(sets=[f"rl.rewards=[{{name: random, p: {p}}}]"]).config.rl for p in (0.3, 0.5)]
    assert said[0].determinants()["rewards"] != said[1].determinants()["rewards"]
    assert said[0].describe()["reward"] == "random (p 0.3)"


NAN = math.nan


def paid(*weights, graded=True):
    names = ("grade", "brevity", "tests")[: len(weights)]
    return RewardSet(names, weights, (), graded)


def test_the_grade_alone_is_handed_through():
    raw_BF = torch.tensor([[1.0], [0.0]])
    usual = paid(1.0, graded=False)
    weighted_BF, rated_B = usual.pay(raw_BF, 2)
    assert weighted_BF is raw_BF
    assert rated_B.tolist() == [True, True]
    assert usual.record(raw_BF, raw_BF, rated_B, 2) == {}


def test_weights_and_absent_parts_by_hand():
    """1 + .2 x .5 = 1.1; 0 + .2 x 1 = .2; 1 alone; -.5 of nothing is 0."""
    raw_BF = torch.tensor([[1.0, 0.5, NAN], [0.0, 1.0, NAN], [1.0, NAN, 2.0], [0.0, NAN, NAN]])
    weighted_BF, _ = paid(1.0, 0.2, -0.5).pay(raw_BF, 2)
    torch.testing.assert_close(weighted_BF.sum(dim=1), torch.tensor([1.1, 0.2, 0.0, 0.0]))


def test_a_completion_without_rewards_has_its_groups_mean():
    """Of the first group .2 and .4 are known: the third gets .3. Of the second nothing is."""
    raw_BF = torch.tensor([[0.0, 0.2], [1.0, 0.4], [1.0, NAN], [1.0, NAN], [0.0, NAN], [0.0, NAN]])
    total_B = paid(0.0, 1.0).pay(raw_BF, 3)[0].sum(dim=1)
    torch.testing.assert_close(total_B, torch.tensor([0.2, 0.4, 0.3, 0.0, 0.0, 0.0]))


def test_a_punishment_of_length_says_nothing_of_a_completion():
    """Of 1, 1 and 0 - .5 the mean is .5, which the third gets whatever its length."""
    both = RewardSet(("tests", "overlong"), (1.0, 1.0), (), graded=True)
    raw_BF = torch.tensor([[1.0, 0.0], [1.0, 0.0], [NAN, -0.25], [0.0, -0.5]])
    total_B = both.pay(raw_BF, 4)[0].sum(dim=1)
    torch.testing.assert_close(total_B, torch.tensor([1.0, 1.0, 0.5, -0.5]))


def test_who_is_rated_by_hand():
    """Where somebody spoke it counts; a grade that isn't paid and a punishment say nothing."""
    raw_BF = torch.tensor([[0.0, 0.2], [1.0, NAN], [NAN, NAN]])
    assert paid(0.0, 1.0).pay(raw_BF, 3)[1].tolist() == [True, False, False]
    assert paid(1.0, 1.0).pay(raw_BF, 3)[1].tolist() == [True, True, False]
    punished = RewardSet(("tests", "overlong"), (1.0, 1.0), (), graded=True)
    assert punished.pay(raw_BF[:, [0, 1]], 3)[1].tolist() == [True, True, False]
    assert punished.pay(raw_BF.flip(1), 3)[1].tolist() == [True, False, False]


def test_who_is_not_rated_is_in_neither_mean_nor_variance():
    """Groups (.5, -, .5), whose rated ones are equal, and (1, 0, -): the mean is 2 / 4."""
    raw_BF = torch.tensor([[0.5], [NAN], [0.5], [1.0], [0.0], [NAN]])
    tests = RewardSet(("tests",), (1.0,), (), graded=True)
    found = tests.record(raw_BF, *tests.pay(raw_BF, 3), 3)
    assert found == {"reward/tests": 0.5, "reward/total": 0.5, "groups/zero_variance": 0.5}


def test_records_by_hand():
    """Groups (1.1, 1.1) and (.2, 0): half are equal, the mean is 2.4 / 4."""
    raw_BF = torch.tensor([[1.0, 0.5], [1.0, 0.5], [0.0, 1.0], [0.0, NAN]])
    both = paid(1.0, 0.2)
    found = both.record(raw_BF, *both.pay(raw_BF, 2), 2)
    expected = {
        "reward/grade": 0.5,
        "reward/brevity": 2 / 3,
        "reward/total": 0.6,
        "groups/zero_variance": 0.5,
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert math.isclose(found[name], value, rel_tol=1e-6)


def test_a_grade_that_is_not_paid_is_no_part_of_the_reward():
    raw_BF = torch.tensor([[1.0, NAN], [0.0, NAN]])
    watched = paid(0.0, 1.0)
    found = watched.record(raw_BF, *watched.pay(raw_BF, 2), 2)
    assert found == {"groups/zero_variance": 1.0}  # nobody was paid, so there is no mean
