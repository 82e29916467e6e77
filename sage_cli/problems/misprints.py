"""Misprints of published benchmarks that are known, recognised by the text in whatever copy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sage_cli.problems.problem import Problem


@dataclass(frozen=True)
class Misprint:
    """What is wrong with a problem.

    The problem's text has each of `words` and none of `lacking`, blanks and case aside; with a
    `gold` it is the misprint only if that is the problem's. `source` says who found it, or why it
    is one.
    """

    name: str
    words: tuple[str, ...]
    wrong: str
    source: str
    lacking: tuple[str, ...] = ()
    gold: str | None = None

    def is_of(self, problem: Problem) -> bool:
        """Return True if the problem has the misprint."""
        if self.gold is not None and problem.gold.strip() != self.gold:
            return False
        text = _bare(problem.question)
        return all(_bare(words) in text for words in self.words) and not any(
            _bare(words) in text for words in self.lacking
        )


MISPRINTS = (
    Misprint(
        "AIME 2025 I-14",
        ("convex pentagon", r"\angle ZBA"),
        "the text has an angle ZBA of 60 degrees, and no Z; the contest says that the angles B and "
        "E are 60 degrees",
        "github.com/GAIR-NLP/AIME-Preview/issues/4",
    ),
    Misprint(
        "AIME 2025 II-15",
        ("(x-18)(x-72)(x-98)(x-k)",),
        "the text doesn't say that x is positive, without which the function has no minimum",
        "github.com/NVIDIA-NeMo/Skills/pull/1531",
        lacking=("positive real numbers achieves", "x > 0", "defined over the positive"),
    ),
    Misprint(
        "AIME 2024 I-12",
        ("4 g(f(", r"\cos (3 \pi y)"),
        "the gold is 384, and the contest's answer is 385",
        "github.com/NVIDIA-NeMo/Skills/pull/118",
        gold="384",
    ),
    Misprint(
        "GSM8K, Jim goes to college",
        ("Jim decides to go to college to earn some more money",),
        "the gold is 4, and its own worked solution ends with 300,000/50,000 = 6",
        "the row itself, the 1,039th of the test split",
        gold="4",
    ),
)
"""Only what a source or the row itself shows. A benchmark without an entry may have misprints."""


def known_misprints(problems: Iterable[Problem]) -> list[tuple[Problem, Misprint]]:
    """Return the problems that have a known misprint, in their order."""
    return [
        (problem, misprint)
        for problem in problems
        for misprint in MISPRINTS
        if misprint.is_of(problem)
    ]


def _bare(text: str) -> str:
    return "".join(
        text.replace("$", "").replace("\\left", "").replace("\\right", "").split()
    ).lower()
