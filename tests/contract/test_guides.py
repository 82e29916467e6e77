"""Every built-in guide keeps the contract that users' own guides inherit."""

from dataclasses import dataclass

import pytest
from torch import Tensor

from sage_cli.errors import TrainingError
from sage_cli.guides import BranchGuide, Guide, NoGuide, RandomGuide, Signals, TokenGuide
from sage_cli.guides.contract import GuideContract


class TestNone(GuideContract):
    def make(self) -> Guide:
        return NoGuide()


class TestBranch(GuideContract):
    def make(self) -> Guide:
        return BranchGuide(tau=1.2, rho=0.3)


class TestRandom(GuideContract):
    def make(self) -> Guide:
        return RandomGuide(epsilon=(0.5, 0.1))


class TestTokenMinmax(GuideContract):
    def make(self) -> Guide:
        return TokenGuide(norm="minmax")


class TestTokenRank(GuideContract):
    def make(self) -> Guide:
        return TokenGuide(norm="rank")


class TestTokenZscore(GuideContract):
    def make(self) -> Guide:
        return TokenGuide(norm="zscore")


@dataclass(frozen=True)
class Teacher(Guide):
    """More anchor where the reference is surer than the policy, none on the token 3."""

    strength: float = 0.1
    q_min: float = 0.5
    q_max: float = 2.0
    needs = frozenset({"token_ids_BT", "policy_entropy_BT", "reference_entropy_BT"})

    def q(self, signals: Signals, step: int) -> Tensor:
        surer_BT = (signals.policy_entropy_BT - signals.reference_entropy_BT).clamp(min=0)
        return 1 + self.strength * surer_BT * (signals.token_ids_BT != 3)


class TestOfOnesOwnThatReadsBothModels(GuideContract):
    def make(self) -> Guide:
        return Teacher()


@dataclass(frozen=True)
class Nosy(Teacher):
    needs = frozenset({"token_ids_BT"})


def test_the_suite_finds_a_guide_that_reads_what_it_has_not_asked_for():
    class Suite(GuideContract):
        def make(self) -> Guide:
            return Nosy()

    with pytest.raises(TrainingError, match=r"Nosy .*reads policy_entropy_BT and hasn't asked"):
        Suite().test_shape_and_type_are_kept()
