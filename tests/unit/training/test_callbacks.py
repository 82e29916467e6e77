"""Warnings, then a stop with the reason."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sage_cli.errors import TrainingError
from sage_cli.grading import Grade
from sage_cli.progress import Silent
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.run import Run
from sage_cli.training.callbacks import RewardWatch, Safeguards, watched


def record(step: int, **changed: float) -> dict[str, Any]:
    fine = {"loss": 0.1, "grad_norm": 1.0, "completions/clipped": 0, "groups/zero_variance": 0}
    return {"step": step, **fine, **changed}


@pytest.mark.parametrize("key", ["completions/clipped", "groups/zero_variance"])
def test_warns_after_ten_stuck_steps_and_stops_after_twenty(key: str):
    safeguards = Safeguards(stop=True)
    for step in range(9):
        safeguards.check(record(step, **{key: 0.95}))
    with pytest.warns(UserWarning, match="for 10 steps at least 95%"):
        safeguards.check(record(9, **{key: 1.0}))
    for step in range(10, 19):
        safeguards.check(record(step, **{key: 1.0}))
    with pytest.raises(TrainingError, match="for 20 steps"):
        safeguards.check(record(19, **{key: 1.0}))


def test_one_good_step_starts_the_count_again():
    safeguards = Safeguards(stop=True)
    for step in range(200):
        stuck = 0.94 if step % 9 == 8 else 1.0
        safeguards.check(record(step, **{"completions/clipped": stuck}))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("key", ["loss", "grad_norm"])
def test_stops_at_once_when_not_finite(key: str, value: float):
    with pytest.raises(TrainingError, match=f"{key} is {value} at step 3"):
        Safeguards(stop=True).check(record(3, **{key: value}))


def test_only_warns_when_told_to_go_on():
    safeguards = Safeguards(stop=False)
    with pytest.warns(UserWarning, match="loss is nan"):
        safeguards.check(record(1, loss=math.nan))


def test_steps_of_an_earlier_session_count():
    safeguards = Safeguards(stop=True)
    for step in range(19):
        safeguards.count(record(step, **{"groups/zero_variance": 1.0}))
    with pytest.raises(TrainingError, match="for 20 steps"):
        safeguards.check(record(19, **{"groups/zero_variance": 1.0}))


def test_a_training_that_cannot_learn_is_stopped(bench: Any, configure: Any):
    class Never:
        status = "wrong"
        reward = 0.0

    bench.grader = lambda golds, completions: [Never() for _ in golds]
    with (
        pytest.warns(UserWarning, match="nothing to learn from"),
        pytest.raises(TrainingError, match="only equal rewards"),
    ):
        bench.run(configure(rl={"steps": 40, "save_every": 40}))


def rewarded(reward: float, unparseable: int = 0, **changed: float) -> dict[str, Any]:
    """A step of ten completions."""
    right = round(10 * reward)
    counts = {"grade/right": right, "grade/unparseable": unparseable}
    fine = {"completions/clipped": 0.0, "groups/zero_variance": 0.0}
    return {
        "reward": reward,
        **counts,
        "grade/wrong": 10 - right - unparseable,
        **fine,
        **changed,
    }


def said(watch: RewardWatch, *rewards: float, **changed: Any) -> list[str | None]:
    return [watch.check(rewarded(reward, **changed)) for reward in rewards]


def test_no_reward_from_the_start_is_said_once_with_its_shares():
    watch = RewardWatch()
    assert said(watch, *[0.0] * 9, unparseable=4) == [None] * 9
    # unparseable (9 x 4 + 9) / 100, clipped and equal groups in the tenth step alone
    last = {"completions/clipped": 0.5, "groups/zero_variance": 1.0}
    (remark,) = said(watch, 0.0, unparseable=9, **last)
    assert remark is not None
    assert remark.startswith("the mean reward of the last 10 steps is 0: 45% of the completions")
    assert "5% are cut off at the length limit, 10% of the groups have equal rewards" in remark
    assert said(watch, *[0.0] * 30) == [None] * 30


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"completions/clipped": 0.6, "unparseable": 9}, "raise rollout.max_tokens"),
        ({"unparseable": 6}, "the form that prompt.* asks for"),
        ({}, "easier problems"),
    ],
)
def test_the_advice_follows_the_commonest_cause(changed: dict[str, Any], advice: str):
    *_, remark = said(RewardWatch(), *[0.0] * 10, **changed)
    assert remark is not None
    assert advice in remark


def test_a_collapse_is_measured_against_the_best_ten_steps():
    watch = RewardWatch()
    assert said(watch, *[0.4] * 10) == [None] * 10
    # means of ten: .36, .32, ... ; below .25 x .4 = .1 once 8 of ten are 0: (2 x .4) / 10 = .08
    *before, eighth = said(watch, *[0.0] * 8)
    assert before == [None] * 7
    assert eighth is not None
    assert eighth.startswith("the mean reward of the last 10 steps is 0.08, after 0.40: ")
    assert said(watch, *[0.0] * 20) == [None] * 20
    assert said(watch, *[0.1] * 20, *[0.0] * 20) == [None] * 40  # it hasn't recovered: .1 < .2
    assert sum(bool(remark) for remark in said(watch, *[0.4] * 10, *[0.0] * 10)) == 1


def test_chance_is_no_collapse():
    assert said(RewardWatch(), *[0.04, 0.0] * 3, *[0.04] + [0.0] * 8) == [None] * 15


def test_what_an_earlier_session_had_reason_to_say_was_said():
    assert said(RewardWatch(rewarded(0.0) for _ in range(10)), *[0.0] * 10) == [None] * 10
    *_, remark = said(RewardWatch(rewarded(0.4) for _ in range(10)), *[0.0] * 8)
    assert remark is not None


def parts(values: list[float | None], **changed: Any) -> list[str]:
    """Warnings of a training whose own reward has these means, None where it said nothing."""
    watch = RewardWatch(paid=["grade", "mine"])
    rows = [
        rewarded(0.4, **({} if value is None else {"reward/mine": value}), **changed)
        for value in values
    ]
    return [remark for row in rows if (remark := watch.check({**row, "reward/total": 0.4}))]


@pytest.mark.parametrize(
    ("values", "said", "changed"),
    [
        ([0.0] * 10, "mine was 0 on average in 10 of the first 10 steps", {}),
        ([0.0] * 6 + [0.25] + [0.0] * 13, "mine was 0 on average in 9 of the first 10 steps", {}),
        ([None] * 20, "mine was None for every completion in 10 of the first 10 steps", {}),
        ([1.0] * 12, "mine was 1 on average in 10 of the first 10 steps", {}),
        ([None] * 5, "in 5 of the first 5 steps", {"of": 5}),  # also of a short training
        ([0.0] * 8 + [0.25] * 2, None, {}),
        ([0.0, 0.0, 0.25], None, {"of": 3}),
        ([0.0], None, {"of": 1}),
        ([0.5] * 5, None, {"of": 5, "sampled/completions": 0}),  # updates of an older batch
        ([0.25 * (step % 3) for step in range(10)] + [1.0] * 30, None, {}),  # it has been learned
    ],
)
def test_a_constant_reward_is_warned_of_once(
    values: list[float | None], said: str | None, changed: dict[str, Any]
) -> None:
    remarks = parts(values, **changed)
    assert len(remarks) == (said is not None)
    assert all(str(said) in remark for remark in remarks)


def test_a_real_training_whose_reward_is_none_is_warned_of(bench: Any, configure: Any) -> None:
    (bench.folder / "mine.py").write_text(
        "def mine(completions):\n    return [None] * len(completions)\n"
    )
    rewards = [{"name": "grade"}, {"name": f"{bench.folder / 'mine.py'}:mine"}]
    config = configure(
        rl={"steps": 4, "save_every": 4, "rewards": rewards, "stop_when_stuck": False}
    )
    listener = Listener()
    run = Run(bench.folder / "run")
    with watched(run, TrackingSection(wandb="off"), "rl", listener, {}, config.rl) as watch:
        bench.run(config, on_step=watch.on_step)
    assert any(
        "the reward mine was None for every completion in 4 of" in one for one in listener.lines
    )


class Listener(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.filterwarnings("ignore:for 10 steps")
def test_a_real_training_without_reward_is_remarked_on_also_after_an_interruption(
    bench: Any, configure: Any
):
    bench.grader = lambda golds, completions: [Grade("unparseable", None) for _ in golds]
    listener, run = Listener(), Run(bench.folder / "run")
    for steps in (6, 12):
        config = configure(rl={"steps": steps, "save_every": 3, "stop_when_stuck": False})
        with watched(run, TrackingSection(wandb="off"), "rl", listener, {}) as watch:
            bench.run(config, on_step=watch.on_step)
    continued, remark = listener.lines
    assert continued == "[bold]run[/]: continues from step 6"
    assert "reward of the last 10 steps is 0: 100% of the completions can't be parsed" in remark


def test_supervised_steps_have_no_reward(tmp_path: Any):
    listener = Listener()
    with watched(Run(tmp_path), TrackingSection(wandb="off"), "sft", listener, {}) as watch:
        for step in range(1, 30):
            watch.on_step({"step": step, "of": 29, "loss": 1.0})
    assert listener.lines == []
