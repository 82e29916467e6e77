"""The shipped examples keep the contracts that they tell others to inherit."""

import torch
from sage_examples.guide import Opening
from sage_examples.method import Unsolved

from sage_cli.guides.guide_contract import GuideContract
from sage_cli.methods.method_contract import MethodContract


class TestOpening(GuideContract):
    def make(self):
        return Opening(tokens=3, strength=0.2)


class TestUnsolved(MethodContract):
    def make(self):
        return Unsolved(gamma=2)


def test_half_solved_groups_have_half_the_advantage():
    """Groups with 0, 1, 3, 4 and 2 of 4 right: (1 - p)^1 = 3/4, 1/4, 1/2."""
    inputs = TestUnsolved().inputs()
    plain, weighted = (Unsolved(gamma=g).advantages(inputs).reshape(5, 4) for g in (0, 1))
    for group, weight in ((1, 0.75), (2, 0.25), (4, 0.5)):
        torch.testing.assert_close(weighted[group], weight * plain[group])
