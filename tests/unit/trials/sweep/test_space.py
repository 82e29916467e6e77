"""Spaces: which points they have, which parameters exist in them, their plain form."""

import json

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sage_cli.errors import ConfigurationError
from sage_cli.trials.sweep.space import Range, Space, Values, point_key

GUIDE = Values(key="guide.name", values=("token", "branch"))
TAU = Values(key="guide.tau", values=(0.2, 0.4), when={"guide.name": "branch"})
STEPS = Range(key="rl.steps", range=(10, 40), integer=True)
LR = Range(key="rl.learning_rate", range=(1e-5, 1), log=True)
GUIDED = {"guide": GUIDE, "tau": TAU}


def space(**parameters):
    return Space(parameters=parameters)


def test_a_parameter_exists_only_where_its_condition_holds():
    points = list(space(**GUIDED).points())
    # token once, not once for each tau it doesn't have
    assert points == [
        {"guide.name": "token"},
        {"guide.name": "branch", "guide.tau": 0.2},
        {"guide.name": "branch", "guide.tau": 0.4},
    ]
    assert all(point in space(**GUIDED) for point in points)
    signal = Values(key="guide.signal", values="policy", when={"guide.tau": 0.2})
    points = list(space(**GUIDED, signal=signal).points())
    assert [len(point) for point in points] == [1, 3, 2]
    b, c = Values(key="a.b", values=(1, 2)), Values(key="a.c", values=("x", "y"))
    points = [tuple(point.values()) for point in space(b=b, c=c).points()]
    assert points == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@pytest.mark.parametrize(
    "point",
    [
        {"guide.name": "token", "guide.tau": 0.2},
        {"guide.name": "branch"},
        {"guide.name": "branch", "guide.tau": 0.3},
        {"guide.name": "random"},
        {"guide.name": "branch", "guide.tau": 0.2, "rl.steps": 10},
    ],
)
def test_points_that_are_not_in_a_space(point):
    assert point not in space(**GUIDED)


def test_parameters_hold_their_ends_and_are_listed_and_written():
    unit, ones = Range(key="a.b", range=(0, 1)), Values(key="a.b", values=(1, 2))
    held = [STEPS.holds(value) for value in (10, 40, 10.5, 41, 10**400)]
    assert held == [True, True, False, False, False]
    assert [unit.holds(value) for value in (0.5, True, "0.5")] == [True, False, False]
    assert [ones.holds(value) for value in (1.0, True)] == [True, False]
    assert point_key({"a": 1}) == point_key({"a": 1.0})
    assert point_key({"a": 1}) != point_key({"a": True})
    assert space(guide=GUIDE, steps=STEPS).size == 62  # 2 guides x 31 steps from 10 to 40
    assert len(space(guide=GUIDE, steps=STEPS).listed()) == 62
    for long in (LR, Range(key="rl.steps", range=(1, 1e30), integer=True)):
        assert space(guide=GUIDE, long=long).size is None
        assert space(guide=GUIDE, long=long).listed() is None
    with pytest.raises(ConfigurationError, match="lr has a range") as caught:
        list(space(tau=STEPS, lr=LR).points())
    assert "lr=0.1|0.2|0.3" in caught.value.next_step
    assert GUIDE.distribution == CategoricalDistribution(("token", "branch"))
    assert STEPS.distribution == IntDistribution(10, 40)
    assert LR.distribution == FloatDistribution(1e-5, 1.0, log=True)
    written = space(**GUIDED, steps=STEPS, lr=LR)
    assert list(map(json.dumps, written.plain()[1:3])) == [
        '{"name": "tau", "key": "guide.tau", "when": {"guide.name": ["branch"]}, '
        '"values": [0.2, 0.4]}',
        '{"name": "steps", "key": "rl.steps", "log": false, "integer": true, "range": [10, 40]}',
    ]
