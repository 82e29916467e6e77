"""Whose fault a failure is: the trial's own settings', or something outside."""

import pytest

from sage_cli.config.load import load
from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.search.blame import _MEMORY_SETTINGS, Streak, changes_memory, is_own
from sage_cli.trials.search.study.study_trial import State, StudyTrial


def test_memory_is_a_trials_own_lack_only_if_a_searched_setting_changes_it():
    lack = Failure(Kind.MEMORY, "no more")
    assert not is_own(lack, ["guide.tau", "rl.learning_rate", "rollout.temperature"])
    for key in ("rl.prompts_per_step", "rollout.max_tokens", "model.hidden", "sft.batch_size"):
        assert changes_memory([key])
        assert is_own(lack, ["guide.tau", key])


@pytest.mark.parametrize(("kind", "own"), [
    (Kind.DIVERGED, True), (Kind.TIMEOUT, False), (Kind.KILLED, False), (Kind.ERROR, False),
    (Kind.REFUSED, False),
])  # fmt: skip
def test_of_the_others_divergence_alone_is_a_trials_own(kind, own):
    assert is_own(Failure(kind, "x"), ["rl.prompts_per_step"]) is own


def test_every_setting_that_changes_memory_exists():
    configs = [load(sets=sets).config for sets in ([], ["rl.algo=dars"])]
    for key in _MEMORY_SETTINGS:
        section, name = key.split(".")
        assert any(hasattr(getattr(one, section), name) for one in configs), key


def test_a_streak_blames_its_trials_where_another_kind_begins():
    blamed = []
    streak = Streak(2, lambda trial, why: blamed.append((trial.number, why.kind)))
    trials = [StudyTrial(number, {}, State.RUNNING) for number in range(3)]
    streak.add(trials[0], Failure(Kind.ERROR, "disk full"))
    assert (streak.stops, blamed) == (None, [])
    streak.add(trials[1], Failure(Kind.TIMEOUT, "slow"))
    assert (streak.stops, blamed) == (None, [(0, Kind.ERROR)])
    streak.add(trials[2], last := Failure(Kind.TIMEOUT, "slow again"))
    assert streak.stops is last
    streak.end()
    assert (streak.stops, blamed[1:]) == (None, [(1, Kind.TIMEOUT), (2, Kind.TIMEOUT)])


def test_without_a_most_no_streak_stops():
    streak = Streak(None, lambda trial, why: None)
    for _ in range(9):
        streak.add(StudyTrial(0, {}, State.RUNNING), Failure(Kind.ERROR, "x"))
    assert streak.stops is None
