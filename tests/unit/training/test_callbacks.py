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
