"""Warnings, then a stop with the reason."""

import math
import warnings

import pytest

from sage_cli.errors import TrainingError
from sage_cli.grading import Grade
from sage_cli.training.safeguards import Safeguards


def record(step, **changed):
    fine = {"loss": 0.1, "grad_norm": 1.0, "completions/clipped": 0, "groups/zero_variance": 0}
    return {"step": step, **fine, **changed}


@pytest.mark.parametrize("key", ["completions/clipped", "groups/zero_variance"])
def test_warns_at_the_first_stuck_step_and_stops_after_twenty(key):
    safeguards = Safeguards(stop=True)
    safeguards.check(record(0, **{key: 0.94}))
    with pytest.warns(UserWarning, match="at step 1 at least 95% of the"):
        safeguards.check(record(1, **{key: 0.95}))
    for step in range(2, 20):
        safeguards.check(record(step, **{key: 1.0}))  # said once
    with pytest.raises(TrainingError, match="for 20 steps"):
        safeguards.check(record(20, **{key: 1.0}))


def test_unreadable_answers_are_warned_of_at_the_first_step_and_stop_nothing():
    """19 of 20 completions are 95%."""
    safeguards = Safeguards(stop=True)
    stuck = record(1, **{"grade/unparseable": 19, "grade/wrong": 1})
    with pytest.warns(UserWarning, match="at step 1 at least 95% of the completions had no read"):
        safeguards.check(stuck)
    for step in range(2, 40):
        safeguards.check({**stuck, "step": step})
    safeguards.check(record(40, **{"grade/unparseable": 18, "grade/wrong": 2}))
    with pytest.warns(UserWarning, match="at step 41"):
        safeguards.check({**stuck, "step": 41})


def test_one_good_step_starts_the_count_again():
    safeguards = Safeguards(stop=True)
    warnings.simplefilter("ignore")
    for step in range(200):
        stuck = 0.94 if step % 9 == 8 else 1.0
        safeguards.check(record(step, **{"completions/clipped": stuck}))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("key", ["loss", "grad_norm"])
def test_what_is_not_finite_stops_at_once_or_warns(key, value):
    said = f"{key} is {value} at step 3"
    with pytest.raises(TrainingError, match=said):
        Safeguards(stop=True).check(record(3, **{key: value}))
    with pytest.warns(UserWarning, match=said):
        Safeguards(stop=False).check(record(3, **{key: value}))


def test_steps_of_an_earlier_session_count():
    safeguards = Safeguards(stop=True)
    for step in range(19):
        safeguards.count(record(step, **{"groups/zero_variance": 1.0}))
    with pytest.raises(TrainingError, match="for 20 steps"):
        safeguards.check(record(19, **{"groups/zero_variance": 1.0}))


def test_a_training_that_cannot_learn_is_stopped(bench, configure):
    bench.grader = lambda golds, completions: [Grade("wrong", None) for _ in golds]
    small = {"prompts_per_step": 2, "rollouts_per_prompt": 2}
    with (
        pytest.warns(UserWarning, match="no learning signal"),
        pytest.raises(TrainingError, match="groups had equal rewards"),
    ):
        bench.records(configure(rl={"steps": 40, "save_every": 40, **small}))
