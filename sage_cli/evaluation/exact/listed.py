"""The right workings that a generator lists for its problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sage_cli.errors import DataError
from sage_cli.problems.generated.generator import Generator
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import generated
from sage_cli.settings.plugins import named
from sage_cli.settings.sections.data import DataSection


@dataclass(frozen=True)
class Listed:
    """The ways of a generator, its guesses among them, and each problem's workings by way."""

    generator: str
    version: int
    ways: tuple[str, ...]
    guesses: frozenset[str]
    workings: Mapping[str, Mapping[str, str]]


def lists_right_texts(benchmark: str) -> bool:
    """Return True if the benchmark's generator says which texts are right."""
    entry = generated(benchmark)
    return entry is not None and entry.generator.lists_right_texts()


def generator_with_texts(benchmark: str) -> type[Generator]:
    """Return the benchmark's generator. Raises DataError if it lists no right texts."""
    entry = generated(benchmark)
    if entry is not None and lists_right_texts(benchmark):
        return entry.generator
    raise DataError(
        f"nothing says which texts are right on {benchmark}, so they have no exact chances",
        "name generated problems whose generator has `right_texts`, as arithmetic, or measure it "
        "by samples with `sage passk`",
    )


def listed_texts(benchmark: str, problems: Sequence[Problem], data: DataSection) -> Listed:
    """Return what the benchmark's generator lists. Raises DataError if it lists nothing."""
    kind = generator_with_texts(benchmark)
    with named("generator", kind):
        generator = kind.of(data)
        workings = {problem.id: dict(generator.right_texts(problem)) for problem in problems}
    ways = tuple(dict.fromkeys(way for by_way in workings.values() for way in by_way))
    return Listed(kind.name, kind.version, ways, kind.guesses & {*ways}, workings)
