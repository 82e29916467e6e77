"""Every built-in guide keeps the contract that users' own guides inherit."""

import pytest

from sage_cli.errors import TrainingError
from sage_cli.guides import Guide, RandomGuide, TokenGuide
from sage_cli.guides.guide_contract import GuideContract
from sage_cli.settings.section import built_in


class TestBuiltIn(GuideContract):
    """Every guide in a file of the package, with its default settings."""

    @pytest.fixture(autouse=True, params=[*built_in(Guide)])
    def choose(self, request):
        self.kind = built_in(Guide)[request.param]

    def make(self):
        return self.kind()


class TestNoiseOnHalfOfTheTokens(GuideContract):
    def make(self):
        return RandomGuide(epsilon=(0.5, 0.1))


class TestTokenRank(GuideContract):
    def make(self):
        return TokenGuide(norm="rank")


class TestTokenZscore(GuideContract):
    def make(self):
        return TokenGuide(norm="zscore")


class Surer(Guide):
    """More anchor where the reference is surer than the policy, none on the token 3."""

    strength: float = 0.1
    q_min: float = 0.5
    q_max: float = 2.0
    needs = frozenset({"token_ids_BT", "policy_entropy_BT", "reference_entropy_BT"})

    def q(self, signals, step):
        surer_BT = (signals.policy_entropy_BT - signals.reference_entropy_BT).clamp(min=0)
        return 1 + self.strength * surer_BT * (signals.token_ids_BT != 3)


class TestOfOnesOwnThatReadsBothModels(GuideContract):
    def make(self):
        return Surer()


class Nosy(Surer):
    needs = frozenset({"token_ids_BT"})


def test_the_suite_finds_a_guide_that_reads_what_it_has_not_asked_for():
    class Suite(GuideContract):
        def make(self):
            return Nosy()

    with pytest.raises(TrainingError, match=r"Nosy .*reads policy_entropy_BT and has not asked"):
        Suite().test_shape_and_type_are_kept()
