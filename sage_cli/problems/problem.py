"""Problems and demonstrations, and the interface of a generator, which makes them of settings."""

from __future__ import annotations

import hashlib
import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from pydantic import ValidationError

from sage_cli.errors import ConfigurationError, DataError, did_you_mean
from sage_cli.settings.data import DataSection
from sage_cli.settings.section import Section
from sage_cli.solution_text import each_gold

PROBLEMS = "problems.jsonl"
"""The file of an imported run with its problems: `question`, `gold`, and the program's `id`."""
NO_GOLD = "(the imported file has no gold)"
"""Stands for the gold of a problem that has none; only the program's verdicts count on it."""
Split = Literal["test", "validation", "training"]
SPLITS: Mapping[Split, str] = {"test": "", "validation": "-dev", "training": "-train"}
"""The suffix of a split's name, after its generator's: `arithmetic-dev`."""
_OPENING = re.compile(r"^\s*(?:<[^<>]*>\s*)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its gold answer.

    `id` is a stable hash of source, question and gold, so that benchmarks that share rows (`aime`
    and `aime24`) share samples; `benchmark` is the registered name or the file's; `meta` keeps
    what the source said besides (level, subject, people, ...) and under `origin` the file's
    content hash or the Hub's commit. `working` is a worked solution, where the source has one.
    `own` are the columns that question, gold and solution were read from, as the row has them.
    `gold_text` is the worked solution that the gold was read from, None where the gold stood alone;
    `solved` is what a worked solution beside the gold ends with.
    """

    id: str
    benchmark: str
    question: str
    gold: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    working: str | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    gold_text: str | None = None
    solved: str | None = None

    @property
    def golds(self) -> tuple[str, ...]:
        """The golds of which any is correct: the gold alone, unless its column held a list."""
        return each_gold(self.gold)


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked answer for supervised warm-up.

    Without a working the answer alone is learnt. `loss` says what the loss covers: the completion
    alone, or the question as well.
    """

    question: str
    working: str | None
    answer: str
    loss: str = "completion"

    @property
    def text(self) -> str:
        """The characters that a tokenizer made for demonstrations needs."""
        return f"{self.question}\n{self.answer if self.working is None else self.working}"


def problem_id(source: str, question: str, gold: str) -> str:
    """Sixteen hexadecimal digits that depend on nothing but the three texts."""
    content = json.dumps([source, question, gold], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def seeded(seed: int, purpose: object) -> random.Random:
    """Return random numbers that depend on seed and purpose, never on the process."""
    return random.Random(f"{seed}:{purpose}")  # seeded by SHA-512 of the text


class Generator(ABC):
    """Problems made from settings alone, the same ones in every process.

    `self.section` holds its `settings`. With a training split, training on the generator's name
    reads that.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    splits: ClassVar[tuple[Split, ...]] = ("test",)
    settings: ClassVar[type[Section]] = Section
    judge: ClassVar[str] = "math"
    tolerance: ClassVar[float | None] = None
    modes: ClassVar[Mapping[str, str]] = {}
    """Ways of solving that a completion announces: name -> the words that it begins with."""
    mode_words: ClassVar[Mapping[str, str]] = {}
    """What a completion of each of `modes` does, in words: name -> `splits the second factor`."""
    guesses: ClassVar[frozenset[str]] = frozenset()
    """Those of `modes` that show no working: an answer that is correct by luck."""
    decisive: ClassVar[Mapping[Split, tuple[str, ...]]] = {}
    """The settings that decide a split's problems, where they are not all of them."""
    version: ClassVar[int] = 1
    """To be raised when the same settings give other problems than before."""

    def __init__(self, section: Section) -> None:
        self.section = section

    @classmethod
    @abstractmethod
    def from_data(cls, data: DataSection) -> Self:
        """Return the generator as `data` sets it."""

    @classmethod
    def with_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return the generator with these settings; ConfigurationError names wrong ones."""
        try:
            return cls(cls.settings.model_validate(settings))
        except ValidationError as error:
            raise ConfigurationError(
                "\n".join(_explained(cls, complaint) for complaint in error.errors()),
                f"its settings are {', '.join(cls.settings.model_fields) or 'none'}",
            ) from error

    @abstractmethod
    def problems(self, split: Split) -> list[Problem]:
        """Return the problems of one of `splits`; no question is in two of them."""

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:  # noqa: ARG002
        """Exactly `count` worked problems, in the order in which they are learned.

        None is a held-out one. They are taken in by `batch_size` at a time.
        """
        raise DataError(
            f"{self.name} has no worked solutions to learn from",
            "choose arithmetic, or a data set with worked solutions",
        )

    def identity(self) -> dict[str, Any]:
        """Return the determinants of problems and demonstrations, without making any."""
        settings = self.section.determinants()
        return {"generator": self.name, "version": self.version, "settings": settings}

    def name_in(self, split: Split) -> str:
        """Return a split's name, such as `arithmetic:held_out=60` for an unusual split."""
        kind, words = type(self.section), []
        usual = kind().model_dump(mode="json")
        for key, value in self.section.model_dump(mode="json").items():
            if value != usual[key] and key in self.decisive.get(split, kind.model_fields):
                several = value if isinstance(value, list) else [value]
                words.append(f":{key}={'+'.join(map(str, several))}")
        return self.name + SPLITS[split] + "".join(words)

    def problem(self, split: Split, question: str, gold: str, **meta: Any) -> Problem:
        """Return a problem of `split` with an id of its own."""
        name = self.name + SPLITS[split]
        return Problem(problem_id(name, question, gold), name, question, gold, meta)

    @classmethod
    def mode_of(cls, completion_text: str) -> str | None:
        """Return the mode that a completion announces behind its opening tag, or None."""
        text = _OPENING.sub("", completion_text, count=1)
        return next((mode for mode, words in cls.modes.items() if text.startswith(words)), None)

    @staticmethod
    def working_is_right(question: str, completion: str) -> bool | None:  # noqa: ARG004
        """Return True if a completion's working proves its answer; None if no rule checks it."""
        return None

    @classmethod
    def demonstrates(cls) -> bool:
        """Return True if it makes demonstrations."""
        return cls.demonstrations is not Generator.demonstrations

    @classmethod
    def entries(cls) -> list[Generated]:
        """Its splits, as they are known by name."""
        return [Generated(cls, split) for split in cls.splits]


@dataclass(frozen=True)
class Generated:
    """One split of a generator, as a benchmark or as data to train on.

    `settings`, such as `low=2:held_out=60` behind a name's colon, win over those of `data`.
    """

    generator: type[Generator]
    split: Split
    settings: str = ""

    def made(self, data: DataSection) -> Generator:
        """Return the generator as `data` and the name's settings say, lists as `people=2+3`."""
        generator = self.generator.from_data(data)
        if not self.settings:
            return generator
        values = dict(generator.section)
        for key, _, value in (word.partition("=") for word in self.settings.split(":")):
            values[key] = value.split("+") if isinstance(values.get(key), tuple) else value
        return generator.with_settings(values)

    @property
    def name(self) -> str:
        """`arithmetic`, `arithmetic-dev` or `arithmetic-train`."""
        return self.generator.name + SPLITS[self.split]

    @property
    def title(self) -> str:
        """The generator's, with the split unless it is the one to measure."""
        return self.generator.title + ("" if self.split == "test" else f", {self.split}")

    @property
    def judge(self) -> str:
        """The name of its judge."""
        return self.generator.judge

    @property
    def tolerance(self) -> float | None:
        """The relative tolerance of its golds."""
        return self.generator.tolerance

    @property
    def training(self) -> bool:
        """Return True if it is for training rather than for measuring."""
        return self.split == "training"


def _explained(kind: type[Generator], complaint: Any) -> str:
    name = ":".join([kind.name, *map(str, complaint["loc"])])
    if complaint["type"] != "extra_forbidden":
        return f"{name}: {complaint['msg']}"
    near = did_you_mean(str(complaint["loc"][-1]), kind.settings.model_fields)
    return f"{name} is not a setting" + (near and f"; {near}")
