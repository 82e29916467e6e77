"""Every built-in guide keeps the contract that users' own guides inherit."""

from sage_cli.guides import BranchGuide, Guide, NoGuide, RandomGuide, TokenGuide
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
