"""Real rows of ASDiv and SVAMP, split so that nothing held out is seen in training."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import chain

from sage_cli.errors import DataError
from sage_cli.problems.generated.word_problems.formula import Formula, read_formula, value
from sage_cli.problems.generated.word_problems.redraw import NUMERAL
from sage_cli.problems.problem import Problem
from sage_cli.problems.published import data_set
from sage_cli.problems.sources import open_source
from sage_cli.settings.sections.data import DataSection

SOURCES = ("asdiv", "svamp")
BENCHMARK = "word-problems"


@dataclass(frozen=True, slots=True)
class FormulaRow:
    """A published problem, untouched, and its formula."""

    problem: Problem
    formula: Formula


@dataclass(frozen=True, slots=True)
class Splits:
    """Rows to test on, to choose settings on and to train on; no family is in two of them."""

    held_out: tuple[FormulaRow, ...]
    validation: tuple[FormulaRow, ...]
    training: tuple[FormulaRow, ...]

    @classmethod
    def of(cls, data: DataSection) -> Splits:
        """The splits of `data.word_problems`, from the rows that `data` says where to find.

        Families are ordered by a hash of their text, so that the split depends on the rows alone,
        and asking for more held-out problems keeps the ones there were. Of a family that is held
        out one row is asked and the others are left out. Raises DataError when the rows can't be
        had or none would be left to train on.
        """
        section = data.word_problems
        families = list(_families(readable_rows(data)).values())
        left = len(families) - section.held_out - section.validation
        if left < 1:
            raise DataError(
                f"{section.held_out} held-out and {section.validation} validation problems "
                f"leave nothing to train on: there are {len(families)}",
                "lower data.word_problems.held_out or data.word_problems.validation",
            )
        first, last = section.held_out, len(families) - section.validation
        return cls(
            _named(BENCHMARK, (family[0] for family in families[:first])),
            _named(f"{BENCHMARK}-dev", (family[0] for family in families[last:])),
            _named(f"{BENCHMARK}-train", chain.from_iterable(families[first:last])),
        )


def readable_rows(data: DataSection) -> Iterator[FormulaRow]:
    """The rows whose formula is arithmetic on whole numbers and gives the published answer."""
    for name in SOURCES:
        for problem, working in open_source(data_set(name), data).worked():
            formula = read_formula(working)
            if formula is not None and problem.gold == str(value(formula)):
                yield FormulaRow(problem, formula)


def family(question: str, ordinary: Set[str]) -> str:
    """`question` without numbers, names, punctuation and case: what its variants share.

    A name is a capitalised word that is not among the `ordinary` ones.
    """
    nameless = re.sub(
        r"\b[A-Z][a-z]+\b", lambda word: word[0] if word[0].lower() in ordinary else "X", question
    )
    return " ".join(re.findall("[a-z]+", NUMERAL.sub("n", nameless).lower()))


def _families(rows: Iterable[FormulaRow]) -> dict[str, list[FormulaRow]]:
    """Rows by family, families in the order of their hashes."""
    listed = list(rows)
    ordinary = {word for row in listed for word in re.findall(r"\b[a-z]+\b", row.problem.question)}
    families: dict[str, list[FormulaRow]] = {}
    for row in listed:
        families.setdefault(family(row.problem.question, ordinary), []).append(row)
    return dict(
        sorted(families.items(), key=lambda item: hashlib.sha256(item[0].encode()).digest())
    )


def _named(benchmark: str, rows: Iterable[FormulaRow]) -> tuple[FormulaRow, ...]:
    """The rows under their split's name; their ids stay those of the published rows."""
    return tuple(FormulaRow(replace(row.problem, benchmark=benchmark), row.formula) for row in rows)
