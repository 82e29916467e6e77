"""Every generator keeps the contract of generators."""

from generator_contract import GeneratorContract

from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.knights_knaves import KnightsKnaves
from sage_cli.problems.problem import Generator
from sage_cli.settings.sections.data import ArithmeticSection, KnightsKnavesSection


class TestArithmetic(GeneratorContract):
    def make(self) -> Generator:
        return Arithmetic(ArithmeticSection(high=40))

    def changed(self) -> Generator:
        return Arithmetic(ArithmeticSection(high=40, seed=1))


class TestKnightsKnaves(GeneratorContract):
    def make(self) -> Generator:
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5))

    def changed(self) -> Generator:
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5, seed=1))
