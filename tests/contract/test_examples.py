"""The shipped examples keep the contracts that they tell others to inherit."""

import pytest
import torch
from sage_examples.data_set import ClockProblems, ClockSettings
from sage_examples.guide import Opening
from sage_examples.judge import Clock, minutes
from sage_examples.method import Unsolved

from sage_cli.grading.judge_contract import JudgeContract
from sage_cli.grading.judges import Judge
from sage_cli.guides import Guide
from sage_cli.guides.guide_contract import GuideContract
from sage_cli.methods.method import Method
from sage_cli.methods.method_contract import MethodContract
from sage_cli.problems.generator import Generator
from sage_cli.problems.generator_contract import GeneratorContract


class TestOpening(GuideContract):
    def make(self) -> Guide:
        return Opening(tokens=3, strength=0.2)


class TestUnsolved(MethodContract):
    def make(self) -> Method:
        return Unsolved(gamma=2)


def test_half_solved_groups_have_half_the_advantage() -> None:
    """Groups with 0, 1, 3, 4 and 2 of 4 right: (1 - p)^1 = 3/4, 1/4, 1/2."""
    inputs = TestUnsolved().inputs()
    plain, weighted = (Unsolved(gamma=g).advantages(inputs).reshape(5, 4) for g in (0, 1))
    for group, weight in ((1, 0.75), (2, 0.25), (4, 0.5)):
        torch.testing.assert_close(weighted[group], weight * plain[group])


class TestClock(JudgeContract):
    golds = ("9:05", "21:40", "0:00")
    wrong = (("9:05", "9:50"), ("9:05", "9:05 pm"), ("0:00", "12:00"))
    right = (("9:05", "09:05"), ("21:40", "9:40 PM"), ("0:00", "12:00 am"))

    def make(self) -> Judge:
        return Clock()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9:05", 545), ("12:30 am", 30), ("12:30 pm", 750), ("24:00", None), ("13:00 pm", None)],
)
def test_minutes_since_midnight(text: str, expected: int | None) -> None:
    """9 x 60 + 5; half past midnight; 12 x 60 + 30; no such hours."""
    assert minutes(text) == expected


class TestClockProblems(GeneratorContract):
    def make(self) -> Generator:
        return ClockProblems(ClockSettings())

    def changed(self) -> Generator:
        return ClockProblems(ClockSettings(seed=1))
