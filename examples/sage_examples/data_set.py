"""A generated data set: what time is it so many minutes later?"""

import random

from sage_cli.problems.generator import Generator, Split
from sage_cli.problems.problem import Demonstration, Problem
from sage_cli.settings.section import Section


class ClockSettings(Section):
    """`data.generators.clock`."""

    held_out: int = 50
    seed: int = 0


class ClockProblems(Generator):
    """`9:40+35min=?`, graded by the judge `clock`."""

    name, title, judge = "clock", "Times of day", "clock"
    splits = ("test", "training")
    settings = ClockSettings

    def problems(self, split: Split) -> list[Problem]:
        """Every quarter of an hour and twelve lengths, shuffled; the first ones are held out."""
        pairs = [(start, length) for start in range(0, 1440, 15) for length in range(5, 65, 5)]
        random.Random(f"{self.section.seed}").shuffle(pairs)
        held_out = self.section.held_out
        kept = pairs[:held_out] if split == "test" else pairs[held_out:]
        return [self.problem(split, f"{time(a)}+{b}min=?", time(a + b)) for a, b in kept]

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:
        """Training problems again and again; the working repeats what is to be added."""
        draw, training = random.Random(f"{self.section.seed}:shown"), self.problems("training")
        shown = draw.choices(training, k=count)
        return [Demonstration(one.question, one.question[:-2], one.gold) for one in shown]


def time(minutes: int) -> str:
    """As 9:05."""
    return f"{minutes // 60 % 24}:{minutes % 60:02}"
