"""The samples in a file of another program, before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from sage_cli.errors import DataError
from sage_cli.problems.rows import Row, as_text

Taken = TypeVar("Taken")

SETTINGS = ("model", "temperature", "top_p", "max_tokens", "seed")
"""Settings of sampling that matter for a comparison; a file may say some of them."""

TEXTS = ("problem", "question", "text", "gold", "extracted")
"""The fields of a sample that hold texts."""


@dataclass(frozen=True, slots=True)
class ForeignSample:
    """A completion of a problem; None stands for what the file doesn't say.

    `problem` is the program's own id. `right` is its verdict, `extracted` the answer that the
    verdict is about.
    """

    problem: str
    question: str
    text: str
    gold: str | None = None
    right: bool | None = None
    extracted: str | None = None
    tokens: int | None = None
    finish_reason: Literal["stop", "length"] | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ForeignFile:
    """The samples of a file in its order.

    `score` is the program's name of the verdict, `settings` what the file says of `SETTINGS` and
    of the program, `notes` say what of the file was not taken.
    """

    program: str
    samples: Sequence[ForeignSample]
    score: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def has_verdicts(self) -> bool:
        """Return True if every sample has the program's verdict."""
        return all(sample.right is not None for sample in self.samples)

    @property
    def has_golds(self) -> bool:
        """Return True if every sample has a gold."""
        return all(sample.gold is not None for sample in self.samples)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what the file doesn't say."""
        per_sample = {
            "golds": self.has_golds,
            "verdicts": self.has_verdicts,
            "token counts": all(sample.tokens is not None for sample in self.samples),
            "truncation": all(sample.finish_reason is not None for sample in self.samples),
        }
        absent = [name for name in SETTINGS if self.settings.get(name) is None]
        return (*absent, *(name for name, stated in per_sample.items() if not stated))


@contextmanager
def whole(location: object, expected: str) -> Iterator[None]:
    """Raise DataError where the block finds other values at `location` than a program writes."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise DataError(
            f"{location} can't be read: {type(error).__name__} {error}", expected
        ) from error


def of_each(
    rows: Iterable[Row], take: Callable[[Row], Iterable[Taken]], expected: str
) -> list[Taken]:
    """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
    taken: list[Taken] = []
    for row in rows:
        with whole(row[0], expected):
            taken += take(row)
    return taken


def chosen_score(scores: Sequence[str], asked: str | None, location: str) -> str | None:
    """Return the score called `asked`, by default the first; None where there is none.

    Raises DataError for a name of no score.
    """
    if asked is None:
        return scores[0] if scores else None
    if asked not in scores:
        raise DataError(
            f"{location} has no score '{asked}'",
            f"its scores are {', '.join(scores)}" if scores else "leave out --score",
        )
    return asked


def scores_not_taken(scores: Sequence[str], chosen: str | None) -> list[str]:
    """Return the note about the scores besides the chosen one, if there are some."""
    others = [name for name in scores if name != chosen]
    return [f"scores not taken: {', '.join(others)}"] if others else []


def verdict(value: object) -> bool | None:
    """Return True for a score of 1, False for a smaller one, None for what is no score."""
    return None if not isinstance(value, bool | int | float) else value >= 1


def only(value: object, location: str, name: str) -> str:
    """Return a text, or the one text in a list. Raises DataError for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple | dict):
        raise DataError(
            f"{location}: {name} holds {len(value)} values, not one",
            "import the file as --from jsonl, with one gold a problem",
        )
    return as_text(value)
