"""Methods that would ignore rewards refuse them by name; all others are moved by them."""

from dataclasses import replace

import pytest
import torch

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.methods.loop import Method
from sage_cli.methods.online import OnlineMethod
from sage_cli.testing import MethodContract

ONLINE = [kind for kind in Method.members() if issubclass(kind, OnlineMethod)]
REFUSING = {
    "alpha-dpg",
    "maxrl",
    "nsr",
    "pacs",
    "pass-at-k",
    "psr",
    "rlpr",
    "ucpo",
    "w-reinforce",
}


def config_of(kind, *more):
    algo = {"rl": {"algo": kind.name()}}
    return load(["tiny"], flags=algo, sets=["rl.rewards=[grade, brevity]", *more]).config


@pytest.mark.parametrize("kind", ONLINE, ids=lambda kind: kind.name())
def test_graded_rewards_move_the_advantages_or_are_refused(kind):
    if kind.name() in REFUSING:
        with pytest.raises(ConfigurationError, match=f"rl.algo '{kind.name()}' reads .* and would"):
            config_of(kind)
        return
    method = config_of(kind).rl

    class Case(MethodContract):
        def make(self):
            return method

    inputs = Case().inputs()
    graded = replace(inputs, rewards_PN=inputs.rewards_PN + torch.rand_like(inputs.rewards_PN))
    plain, moved = (method.advantages(one) for one in (inputs, graded))
    assert not torch.equal(plain, moved)


def test_what_reads_grades_alone_needs_the_grade_to_be_paid():
    with pytest.raises(ConfigurationError, match=r"rl.advantage 'beta' of rl.algo 'grpo' reads"):
        load(["tiny"], sets=["rl.rewards=[grade, brevity]", "rl.advantage=beta"])
    with pytest.raises(ConfigurationError, match=r"rl.rewards doesn't pay the grade"):
        load(["tiny"], flags={"rl": {"algo": "dapo"}}, sets=["rl.rewards=brevity"])
    assert load(["tiny"], flags={"rl": {"algo": "dapo"}}, sets=["rl.rewards=[grade, brevity]"])


@pytest.mark.parametrize(
    ("rewards", "says"),
    [
        ("[grade, grade]", "two rewards called 'grade'"),
        ("[]", "rl.rewards rewards nothing"),
        ("[{name: grade, weight: 0}]", "rl.rewards rewards nothing"),
        ("[grade, formt]", "unknown reward 'formt'; known: grade, format, brevity"),
        ("[textwrap:total]", "there is no Python file textwrap"),
    ],
)
def test_rewards_that_cannot_be_paid_are_named(rewards, says):
    with pytest.raises(ConfigurationError, match=says.replace("[", r"\[")):
        load(["tiny"], sets=[f"rl.rewards={rewards}"])


def test_names_of_other_parts_are_taken(tmp_path):
    (tmp_path / "mine.py").write_text("def total(completions): ...\ndef grade(completions): ...")
    for name in ("total", "grade"):
        with pytest.raises(ConfigurationError, match=f"'{name}' is the name of another part"):
            load(["tiny"], sets=[f"rl.rewards={tmp_path}/mine.py:{name}"])
