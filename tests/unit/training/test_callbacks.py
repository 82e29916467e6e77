"""Warnings, then a stop with the reason."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sage_cli.errors import TrainingError
from sage_cli.progress import Silent
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.run import Run
from sage_cli.training.callbacks import Safeguards, watched


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
    small = {"prompts_per_step": 2, "rollouts_per_prompt": 2}
    with (
        pytest.warns(UserWarning, match="nothing to learn from"),
        pytest.raises(TrainingError, match="only equal rewards"),
    ):
        bench.run(configure(rl={"steps": 40, "save_every": 40, **small}))


class Listener(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_a_training_that_is_taken_up_says_from_which_step(bench: Any, configure: Any):
    listener, run = Listener(), Run(bench.folder / "run")
    for steps in (3, 4):
        config = configure(rl={"steps": steps, "save_every": 3})
        with watched(run, TrackingSection(wandb="off"), "rl", listener, {}) as watch:
            bench.run(config, on_step=watch.on_step)
    assert listener.lines == ["[bold]run[/]: continues from step 3"]
