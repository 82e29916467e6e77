"""Every built-in generator keeps the contract that users' own generators inherit."""

import tempfile
from pathlib import Path

from word_problem_rows import made_up

from sage_cli.problems.generated.arithmetic import Arithmetic
from sage_cli.problems.generated.contract import GeneratorContract
from sage_cli.problems.generated.generator import Generator
from sage_cli.problems.generated.knights_knaves.generator import KnightsKnaves
from sage_cli.problems.generated.rare_way import RareWay
from sage_cli.problems.generated.word_problems.generator import WordProblems
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import (
    ArithmeticSection,
    KnightsKnavesSection,
    RareWaySection,
)


class TestArithmetic(GeneratorContract):
    def make(self) -> Generator:
        return Arithmetic(ArithmeticSection(high=40))

    def changed(self) -> Generator:
        return Arithmetic(ArithmeticSection(high=40, seed=1))


class TestRareWay(GeneratorContract):
    def make(self) -> Generator:
        return RareWay(RareWaySection(held_out=20, validation=10, training=30))

    def changed(self) -> Generator:
        return RareWay(RareWaySection(held_out=20, validation=10, training=30, seed=1))


class TestKnightsKnaves(GeneratorContract):
    def make(self) -> Generator:
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5))

    def changed(self) -> Generator:
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5, variant="flip"))


class TestPerturbed(TestKnightsKnaves):
    def make(self) -> Generator:
        return KnightsKnaves(KnightsKnavesSection(people=(3,), per_size=4, variant="leaf"))


class TestWordProblems(GeneratorContract):
    def make(self) -> Generator:
        return WordProblems.of(_rows())

    def changed(self) -> Generator:
        """With other rows under the same settings."""
        data = _rows()
        assert data.root is not None
        path = data.root / "train/svamp.jsonl"
        path.write_text(path.read_text().replace("lost", "sold"))
        return WordProblems.of(data)


def _rows() -> DataSection:
    return made_up(Path(tempfile.mkdtemp()))
