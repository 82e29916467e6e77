"""Pruning: Optuna's decisions for one objective, and only what is behind in both for two."""

import random

import optuna
import pytest

from sage_cli.trials.search.pruning import REDUCTION, reason_to_prune
from sage_cli.trials.search.study.study_trial import State, StudyTrial

ONE, TWO = ("pass@1",), ("pass@1", "pass@64")


def looked(number, looks, state=State.DONE):
    return StudyTrial(number, {}, state, validations={step: tuple(v) for step, v in looks.items()})


FIVE = [looked(i, {10: [i / 10, 0.9], 20: [i / 10, 0.9]}) for i in range(1, 6)]
"""pass@1 of .1 to .5, whose median is .3; pass@64 of .9."""


def test_behind_the_median_is_said_with_the_numbers():
    lagging = looked(9, {10: [0.25], 20: [0.2]}, State.RUNNING)
    assert reason_to_prune("median", lagging, FIVE, ONE) == (
        "median: pass@1 0.250 by step 20 is below 0.300, the median of 5 others"
    )


def test_a_good_look_before_counts():
    assert (
        reason_to_prune("median", looked(9, {10: [0.3], 20: [0.2]}, State.RUNNING), FIVE, ONE)
        is None
    )


def test_nothing_ends_before_five_are_done_or_without_a_look():
    lagging = looked(9, {20: [0.0]}, State.RUNNING)
    assert reason_to_prune("median", lagging, FIVE[:4], ONE) is None
    assert (
        reason_to_prune("median", lagging, [looked(i, {10: [0.9]}) for i in range(5)], ONE) is None
    )
    assert reason_to_prune("median", looked(9, {}, State.RUNNING), FIVE, ONE) is None
    assert reason_to_prune("none", lagging, FIVE, ONE) is None


def test_with_two_objectives_only_what_is_behind_in_both_ends():
    assert reason_to_prune("median", looked(9, {20: [0.2, 0.95]}, State.RUNNING), FIVE, TWO) is None
    assert reason_to_prune("median", looked(9, {20: [0.4, 0.85]}, State.RUNNING), FIVE, TWO) is None
    assert reason_to_prune("median", looked(9, {20: [0.2, 0.85]}, State.RUNNING), FIVE, TWO) == (
        "median: pass@1 0.200 by step 20 is below 0.300, the median of 5 others and pass@64 0.850 "
        "by step 20 is below 0.900, the median of 5 others"
    )


def test_asha_keeps_a_quarter_at_each_rung():
    seven = [looked(i, {5: [0.1 * i]}, State.RUNNING) for i in range(7)]  # 0 to .6
    assert (
        reason_to_prune("asha", looked(9, {5: [0.55]}, State.RUNNING), seven, ONE) is None
    )  # 2nd of 8
    assert reason_to_prune("asha", looked(9, {5: [0.45]}, State.RUNNING), seven, ONE) == (
        "asha: pass@1 0.450 at step 5 is not among the best 2 of 8 that came so far"
    )


def test_asha_judges_at_rungs_alone():
    ahead = [looked(1, {5: [0.9], 10: [0.9], 15: [0.9], 20: [0.9]})]
    looks = {5: [0.95]}
    for step in (10, 15):
        looks[step] = [0.0]
        assert reason_to_prune("asha", looked(9, looks, State.RUNNING), ahead, ONE) is None
    looks[20] = [0.0]  # 4 times the first
    assert "step 20" in reason_to_prune("asha", looked(9, looks, State.RUNNING), ahead, ONE)


@pytest.mark.parametrize("rule", ["median", "asha"])
def test_decisions_are_optunas(rule):
    """Fifty trainings side by side, each a look at a time: both end the same at the same looks."""
    pruner = {
        "median": optuna.pruners.MedianPruner(n_startup_trials=5),
        "asha": optuna.pruners.SuccessiveHalvingPruner(min_resource=5, reduction_factor=REDUCTION),
    }[rule]
    study = optuna.create_study(direction="maximize", pruner=pruner)
    generator = random.Random(0)
    running, ours, ended = {}, {}, 0
    for _ in range(600):
        if len(running) < 3 and len(ours) < 50:
            trial = study.ask()
            running[trial.number] = trial
            ours[trial.number] = looked(trial.number, {}, State.RUNNING)
        if not running:
            break
        number = generator.choice(list(running))
        step = 5 * (len(ours[number].validations) + 1)
        value = generator.random() + 0.02 * number
        running[number].report(value, step)
        looks = {**ours[number].validations, step: [value]}
        ours[number] = looked(number, looks, State.RUNNING)
        others = [one for other, one in ours.items() if other != number]
        found = reason_to_prune(rule, ours[number], others, ONE)
        assert (found is not None) == running[number].should_prune()
        state = State.PRUNED if found else State.DONE if step == 100 else None
        if state is not None:
            ended += state is State.PRUNED
            told = {State.PRUNED: optuna.trial.TrialState.PRUNED}.get(state)
            study.tell(running.pop(number), None if told else value, state=told)
            ours[number] = looked(number, looks, state)
    assert 10 < ended < 50
