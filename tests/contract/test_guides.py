"""Every built-in guide keeps the contract that users' own guides inherit."""

from functools import partial

import pytest
from sage_examples.guide import Opening

from sage_cli.errors import TrainingError
from sage_cli.guides import Guide, RandomGuide, TokenGuide
from sage_cli.settings.section import built_in
from sage_cli.testing import GuideContract


class Surer(Guide):
    """More anchor where the reference is surer than the policy, none on the token 3."""

    strength: float = 0.1
    q_min: float = 0.5
    q_max: float = 2.0
    needs = frozenset({"token_ids_BT", "policy_entropy_BT", "reference_entropy_BT"})

    def q(self, signals, step):
        surer_BT = (signals.policy_entropy_BT - signals.reference_entropy_BT).clamp(min=0)
        return 1 + self.strength * surer_BT * (signals.token_ids_BT != 3)


GUIDES = {
    **built_in(Guide),
    "noise on half of the tokens": partial(RandomGuide, epsilon=(0.5, 0.1)),
    "ranks of tokens": partial(TokenGuide, norm="rank"),
    "z-scores of tokens": partial(TokenGuide, norm="zscore"),
    "of one's own, of both models": Surer,
    "the example": partial(Opening, tokens=3, strength=0.2),
}


class TestEach(GuideContract):
    """Every guide in a file of the package with its default settings, and others."""

    @pytest.fixture(autouse=True, params=[*GUIDES])
    def choose(self, request):
        self.name = request.param

    def make(self):
        return GUIDES[self.name]()


class Nosy(Surer):
    needs = frozenset({"token_ids_BT"})


def test_the_suite_finds_a_guide_that_reads_what_it_has_not_asked_for():
    class Suite(GuideContract):
        def make(self):
            return Nosy()

    with pytest.raises(
        TrainingError, match=r"Nosy .*reads policy_entropy_BT, which it did not declare"
    ):
        Suite().test_shape_and_type_are_kept()
