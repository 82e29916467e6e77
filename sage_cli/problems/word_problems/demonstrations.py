"""What a model learns word problems from: real rows, re-drawn rows, and arithmetic facts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from sage_cli.config.data import DataSection, WordProblemsSection
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.word_problems.formula import infix, working_out
from sage_cli.problems.word_problems.redraw import Story, WordProblem
from sage_cli.problems.word_problems.splits import Splits


def word_problem_demonstrations(
    data: DataSection, count: int, batch_size: int
) -> list[Demonstration]:
    """`count` worked problems made from the training split: their order is part of the recipe.

    Each is a row as it was published, a row with other numbers, or a fact: the formula of a
    re-drawn row in place of its story (`(109+82)*7`), so that calculating is learned from short
    texts, on the operations and sizes that the stories ask for. At first the loss covers the story
    too, later the completion alone. Batches hold demonstrations of about one length.
    """
    section = data.word_problems
    stories = [Story(WordProblem(row.problem.question, row.formula))
               for row in Splits.of(data).training]  # fmt: skip
    draw = random.Random(f"{section.seed}:word-problems")
    made = [_demonstration(draw.choice(stories), section, draw) for _ in range(count)]
    ordered = by_length(made, section.window, batch_size, draw)
    both = round(section.text_share * count)
    return [replace(shown, loss="text") for shown in ordered[:both]] + ordered[both:]


def by_length(
    made: Sequence[Demonstration], window: int, batch_size: int, draw: random.Random
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
        draw.shuffle(batches)
        ordered += chain.from_iterable(batches + short)
    return ordered


def _demonstration(
    story: Story, section: WordProblemsSection, draw: random.Random
) -> Demonstration:
    kind = draw.random()
    if kind < section.facts:
        formula = story.redrawn(draw).formula
        return _worked(WordProblem(infix(formula), formula))
    if kind < section.facts + section.redrawn and story.has_numbers:
        return _worked(story.redrawn(draw))
    return _worked(story.problem)


def _worked(problem: WordProblem) -> Demonstration:
    return Demonstration(problem.question, working_out(problem.formula), str(problem.answer))


def _length(shown: Demonstration) -> int:
    return len(shown.question) + len(shown.working)
