"""What a reader returns: the samples of a log, and what the log says besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

from sage_cli.counted import counted

SETTINGS = ("model", "temperature", "top_p", "max_tokens", "seed")
"""Settings of sampling that matter for a comparison; a file may say some of them."""
REPEATED = "they repeat another sample of the same number exactly"
"""Why a sample is left out that a file holds twice."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def with_choices(question: str, choices: Sequence[str]) -> str:
    """Return a question with its choices below it, each behind a letter (a number after Z).

    A judge is given this text: what a choice says in grams is asked for in the gold's kilograms.
    """
    if not choices:
        return question
    names = (*_LETTERS, *map(str, range(len(choices))))
    listed = (f"{name}) {choice}" for name, choice in zip(names, choices, strict=False))
    return question + "\n\n" + "\n".join(listed)


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about how a file is read.

    `score` is the name of the verdict, by default the first. `fields` are columns or dotted paths
    by what they hold, over those that the program is known to write. `golds` are files with the
    questions or golds that a log lacks. `field` is a column of the rows that samples keep. With
    `drop_invalidated`, samples that somebody marked as
    invalid are left out, although the program's own metric has them.
    """

    score: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    golds: tuple[Path, ...] = ()
    drop_invalidated: bool = False
    field: str | None = None


@dataclass(frozen=True, slots=True)
class LogSample:
    """A completion of a problem; None stands for what the file doesn't say.

    `problem` is the program's own id. `text` is None for a choice by likelihoods. `correct` is the
    verdict, `extracted` the answer that it is about. `choices` belong to the question: many
    multiple-choice problems share one stem. `where` is the place in the file, `fields` are columns
    of the row there that somebody asked for.
    """

    problem: str
    question: str
    text: str | None
    gold: str | None = None
    correct: bool | None = None
    extracted: str | None = None
    tokens: int | None = None
    finish_reason: Literal["stop", "length"] | None = None
    seed: int | None = None
    choices: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    fields: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def content(self) -> tuple[str, tuple[str, ...], str | None]:
        """What is asked, without the blanks around it: question, choices and gold."""
        gold = self.gold.strip() if self.gold else None
        return self.question.strip(), self.choices, gold or None

    def encoded(self) -> LogSample:
        """Return it with texts that can be encoded."""
        from sage_cli.store.completion import encodable

        names = ("problem", "question", "text", "gold", "extracted")
        texts = {name: text for name in names if (text := getattr(self, name)) is not None}
        changed: Any = {name: encodable(text) for name, text in texts.items()}
        choices = tuple(map(encodable, self.choices))
        same = changed == texts and choices == self.choices
        return self if same else replace(self, **changed, choices=choices)


@dataclass(frozen=True)
class Log:
    """The samples of a file in its order.

    `score` is the program's name of the verdict, `settings` what the file says of `SETTINGS` and
    of the program. `left_out` counts samples by the reason for which they are not among `samples`;
    `notes` say what else a reader of the numbers has to know. `ids_name_problems` is True where
    the program's ids are known to be problems' (or the user says so), False where they may be
    samples'. `planned` is the number of problems that the evaluation was to have. With
    `graded_otherwise` each sample has a score that is not a verdict, such as an F1 or a mark: what
    was asked is then hardly for a judge of mathematics.
    """

    program: str
    samples: Sequence[LogSample]
    score: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    ids_name_problems: bool = True
    planned: int | None = None
    graded_otherwise: bool = False

    @property
    def has_verdicts(self) -> bool:
        """Return True if every sample has the program's verdict."""
        return all(sample.correct is not None for sample in self.samples)

    @property
    def has_golds(self) -> bool:
        """Return True if every sample has a gold."""
        return all(sample.gold is not None for sample in self.samples)

    @property
    def has_texts(self) -> bool:
        """Return True if every sample has a completion."""
        return all(sample.text is not None for sample in self.samples)

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

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What was left out with its reason, then the other notes."""
        left_out = (f"{counted(n, 'sample')} left out: {why}" for why, n in self.left_out.items())
        return (*left_out, *self.notes)

    def without(self, why: str, is_left_out: Sequence[bool]) -> Log:
        """Return the log without some samples, which are counted under the reason `why`."""
        if not any(is_left_out):
            return self
        kept = [s for s, out in zip(self.samples, is_left_out, strict=True) if not out]
        return replace(self, samples=kept, left_out={**self.left_out, why: sum(is_left_out)})

    def encoded(self) -> Log:
        """Return the log with texts that can be encoded, and a note where one was changed."""
        from sage_cli.store.completion import encodable

        samples = [sample.encoded() for sample in self.samples]
        changed = sum(new is not old for new, old in zip(samples, self.samples, strict=True))
        note = f"{counted(changed, 'sample')}: lone surrogates were replaced by U+FFFD"
        settings = {
            key: encodable(value) if isinstance(value, str) else value
            for key, value in self.settings.items()
        }
        return replace(
            self,
            samples=samples,
            score=None if self.score is None else encodable(self.score),
            settings=settings,
            notes=(*self.notes, *[note] * bool(changed)),
        )


def abbreviate(text: str) -> str:
    """Return an id or the beginning of a question, as a message shows it."""
    return shorten(text, 50, placeholder="...")
