"""The clipping of a policy gradient: one object that a method replaces whole."""

import math
from dataclasses import replace
from typing import Literal

import pytest

from sage_cli.config.load import load
from sage_cli.methods.clipping import Clipping
from sage_cli.methods.grpo import Grpo
from sage_cli.methods.method import PolicyGradient

USUAL = Clipping("grpo", True, 0.2, 0.28, None, "token")


def test_trl_is_told_the_range_or_one_that_clips_nothing():
    assert USUAL.range == (0.2, 0.28)
    told = {
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "delta": None,
        "importance_sampling_level": "token",
    }
    assert USUAL.trl_arguments() == told
    free = replace(USUAL, clip=False)
    assert (free.range, free.describe()) == (None, "grpo, no clipping")
    # a ratio is never below 0, and never above infinity
    assert free.trl_arguments() == told | {"epsilon": 1.0, "epsilon_high": math.inf}
    assert Grpo().clipping == replace(USUAL, epsilon_high=0.2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"delta": 1.1}, "isn't above 1 + rl.epsilon_high"),
        ({"loss": "sapo", "delta": 4.0}, "rl.delta is read by the losses"),
        ({"clip": False, "delta": 4.0}, "can do without it"),
        ({"loss": "cispo"}, "absolute cap"),
    ],
)
def test_settings_that_contradict_each_other_are_problems(change, reason):
    (problem,) = replace(USUAL, **change).problems()
    assert reason in problem
    assert USUAL.problems() == []


def test_a_range_that_never_acts_is_warned_of():
    (warning,) = USUAL.warnings(1)
    assert "0.2 / 0.28 has no effect" in warning
    assert USUAL.warnings(2) == replace(USUAL, epsilon_high=0.2).warnings(1) == []


class Fixed(Clipping):
    """A range that is no setting."""

    @property
    def range(self):
        return 0.5, 0.5

    def describe(self):
        return "clip by a half"

    def problems(self):
        return [*super().problems(), "a half is the method's own"]

    def trl_arguments(self):
        return super().trl_arguments() | {"epsilon": 0.5, "epsilon_high": 0.5}


class Halving(PolicyGradient):
    algo: Literal["halving"] = "halving"
    source = "this test"

    @property
    def clipping(self):
        return Fixed(**vars(super().clipping))


def test_a_method_with_its_own_clipping_replaces_one_object():
    rl = Halving()
    assert rl.clip_range == (0.5, 0.5)
    assert rl.describe()["loss"] == "clip by a half"
    assert (rl.trl_arguments()["epsilon"], rl.trl_arguments()["epsilon_high"]) == (0.5, 0.5)
    assert "a half is the method's own" in rl.refusals(load().config)
