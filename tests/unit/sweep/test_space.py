"""Spaces: which cells they have, which parameters exist in them, their plain form."""

import json

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Parameter, Range, Space, Values, cell_key, from_plain

GUIDE = Parameter("guide", "guide.name", Values(("token", "branch")))
TAU = Parameter("tau", "guide.tau", Values((0.2, 0.4)), {"guide.name": ("branch",)})
STEPS = Parameter("steps", "rl.steps", Range(10, 40, integer=True))


def test_a_parameter_exists_only_where_its_condition_holds():
    cells = list(Space((GUIDE, TAU)).cells())
    # token once, not once for each tau it doesn't have
    assert cells == [
        {"guide.name": "token"},
        {"guide.name": "branch", "guide.tau": 0.2},
        {"guide.name": "branch", "guide.tau": 0.4},
    ]
    assert all(cell in Space((GUIDE, TAU)) for cell in cells)


def test_a_condition_on_what_does_not_exist_does_not_hold():
    signal = Parameter("signal", "guide.signal", Values(("policy",)), {"guide.tau": (0.2,)})
    cells = list(Space((GUIDE, TAU, signal)).cells())
    assert [len(cell) for cell in cells] == [1, 3, 2]


@pytest.mark.parametrize(
    "cell",
    [
        {"guide.name": "token", "guide.tau": 0.2},
        {"guide.name": "branch"},
        {"guide.name": "branch", "guide.tau": 0.3},
        {"guide.name": "random"},
        {"guide.name": "branch", "guide.tau": 0.2, "rl.steps": 10},
    ],
)
def test_cells_that_are_not_in_a_space(cell):
    assert cell not in Space((GUIDE, TAU))


def test_the_last_parameter_is_the_fastest():
    b, c = Parameter("b", "a.b", Values((1, 2))), Parameter("c", "a.c", Values(("x", "y")))
    assert [tuple(cell.values()) for cell in Space((b, c)).cells()] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (2, "y"),
    ]


def test_domains_hold_their_ends_and_nothing_of_another_kind():
    steps = STEPS.domain
    assert 10 in steps
    assert 40 in steps
    assert 10.5 not in steps
    assert 41 not in steps
    assert True not in Range(0, 1)
    assert 0.5 in Range(0, 1)
    assert "0.5" not in Range(0, 1)
    assert 1.0 in Values((1, 2))
    assert True not in Values((1, 2))


def test_one_and_true_are_two_cells():
    assert cell_key({"a": 1}) == cell_key({"a": 1.0})
    assert cell_key({"a": 1}) != cell_key({"a": True})


def test_a_range_is_no_grid():
    with pytest.raises(ConfigurationError, match="steps has a range") as caught:
        list(Space((TAU, STEPS)).cells())
    assert "steps=0.1|0.2|0.3" in caught.value.next_step


def test_size_counts_whole_numbers():
    assert Space((GUIDE, STEPS)).size == 62  # 2 guides x 31 steps from 10 to 40
    assert Space((Parameter("t", "guide.tau", Range(0, 1)),)).size is None


def test_the_plain_form_goes_through_json():
    space = Space(
        (GUIDE, TAU, STEPS, Parameter("lr", "rl.learning_rate", Range(1e-5, 1, log=True)))
    )
    assert from_plain(json.loads(json.dumps(space.plain()))) == space
