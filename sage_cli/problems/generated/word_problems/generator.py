"""Word problems as a generator: splits of published rows, and demonstrations made from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

from sage_cli.problems.generated.generator import Generator, Split, seeded
from sage_cli.problems.generated.word_problems.formula import infix, working_out
from sage_cli.problems.generated.word_problems.redraw import Story, WordProblem, numerals
from sage_cli.problems.generated.word_problems.splits import BENCHMARK, SOURCES, Splits
from sage_cli.problems.problem import Demonstration, Problem
from sage_cli.problems.published import data_set
from sage_cli.problems.sources import source_identity
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import WordProblemsSection


class WordProblems(Generator):
    """ASDiv and SVAMP, split so that nothing held out is seen in training."""

    name = BENCHMARK
    title = "ASDiv and SVAMP"
    splits = ("test", "validation", "training")
    settings = WordProblemsSection
    sources = SOURCES
    section: WordProblemsSection

    def __init__(self, section: WordProblemsSection, data: DataSection) -> None:
        super().__init__(section)
        self.data = data

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.word_problems` sets it, on the rows that `data` says where to find."""
        return cls(data.word_problems, data)

    def problems(self, split: Split) -> list[Problem]:
        """Rows as they were published."""
        rows = Splits.of(self.data)
        chosen = {"test": rows.held_out, "validation": rows.validation, "training": rows.training}
        return [row.problem for row in chosen[split]]

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:
        """`count` worked problems made from the training split: their order is part of the method.

        Each is a row as it was published, a row with other numbers, or a fact: the formula of a
        re-drawn row in place of its story (`(109+82)*7`), so that copying and calculating are
        learned from short texts, on the operations and sizes that the stories ask for. Facts come
        first; on some stories the loss covers the story too. Batches hold demonstrations of about
        one length.

        The working-out first reads out the numbers of the text, in figures, then calculates: to
        `Ann has twelve pens and buys 3. All pens?` it is `12;3;12+3=51>15`. Copying from the text
        and choosing among the numbers are learned apart that way, and sooner.
        """
        section, rows = self.section, Splits.of(self.data).training
        stories = [Story(WordProblem(row.problem.question, row.formula)) for row in rows]
        rng = seeded(section.seed, "word-problems")
        first = round(section.facts_first * count)
        facts = [_fact(rng.choice(stories), rng) for _ in range(first)]
        mixed = [_demonstration(rng.choice(stories), section, rng) for _ in range(count - first)]
        return [
            demonstration
            for stretch in (facts, mixed)
            for demonstration in by_length(stretch, section.window, batch_size, rng)
        ]

    def identity(self) -> dict[str, Any]:
        """The settings, and the content of the published rows."""
        rows = [source_identity(data_set(name), self.data) for name in self.sources]
        return {**super().identity(), "rows": rows}


def by_length(
    made: Sequence[Demonstration], window: int, batch_size: int, rng: random.Random
) -> list[Demonstration]:
    """`made` with texts of similar length side by side, which halves the padding and the time.

    Within each stretch of `window` demonstrations they are sorted by length and cut into batches,
    whose order is drawn.
    """
    ordered: list[Demonstration] = []
    for start in range(0, len(made), window):
        near = sorted(made[start : start + window], key=_length)
        batches = [near[i : i + batch_size] for i in range(0, len(near), batch_size)]
        short = [batches.pop()] if len(batches[-1]) < batch_size else []
        rng.shuffle(batches)
        ordered += chain.from_iterable(batches + short)
    return ordered


def _demonstration(story: Story, section: WordProblemsSection, rng: random.Random) -> Demonstration:
    kind = rng.random()
    if kind < section.facts:
        return _fact(story, rng)
    loss = "text" if rng.random() < section.text_share else "completion"
    if kind < section.facts + section.redrawn and story.has_numbers:
        return _worked(story.redrawn(rng), loss)
    return _worked(story.problem, loss)


def _fact(story: Story, rng: random.Random) -> Demonstration:
    formula = story.redrawn(rng).formula
    return _worked(WordProblem(infix(formula), formula), "completion")


def _worked(problem: WordProblem, loss: str) -> Demonstration:
    read = [n.number for n in numerals(problem.question) if n.number is not None]
    working = ";".join([*map(str, read), working_out(problem.formula)])
    return Demonstration(problem.question, working, str(problem.answer), loss)


def _length(demonstration: Demonstration) -> int:
    return len(demonstration.question) + len(demonstration.working)
