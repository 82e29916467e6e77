"""What a reader returns: the samples of a log, and what the log says besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

SETTINGS = ("model", "temperature", "top_p", "max_tokens", "seed")
"""Settings of sampling that matter for a comparison; a file may say some of them."""


@dataclass(frozen=True, slots=True)
class LogSample:
    """A completion of a problem; None stands for what the file doesn't say.

    `problem` is the program's own id. `text` is None for a choice by likelihoods. `correct` is the
    verdict, `extracted` the answer that it is about.
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

    def encoded(self) -> LogSample:
        """Return it with texts that can be encoded."""
        from sage_cli.store.sample_parts import encodable  # loads arrays, which help needs not

        names = ("problem", "question", "text", "gold", "extracted")
        texts = {name: text for name in names if (text := getattr(self, name)) is not None}
        changed: Any = {name: encodable(text) for name, text in texts.items()}
        return self if changed == texts else replace(self, **changed)


@dataclass(frozen=True)
class Log:
    """The samples of a file in its order.

    `score` is the program's name of the verdict, `settings` what the file says of `SETTINGS` and
    of the program, `notes` say what of the file was not taken.
    """

    program: str
    samples: Sequence[LogSample]
    score: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def has_verdicts(self) -> bool:
        """Return True if every sample has the program's verdict."""
        return all(sample.correct is not None for sample in self.samples)

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

    def encoded(self) -> Log:
        """Return the log with texts that can be encoded, and a note where one was changed."""
        from sage_cli.store.sample_parts import encodable

        samples = [sample.encoded() for sample in self.samples]
        changed = sum(new is not old for new, old in zip(samples, self.samples, strict=True))
        count = "1 sample" if changed == 1 else f"{changed} samples"
        notes = (f"{count}: lone surrogates were replaced by U+FFFD",) if changed else ()
        settings = {
            key: encodable(value) if isinstance(value, str) else value
            for key, value in self.settings.items()
        }
        score = None if self.score is None else encodable(self.score)
        return Log(self.program, samples, score, settings, (*self.notes, *notes))
