"""Problems and demonstrations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sage_cli.settings.judge_names import each_gold


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its gold answer.

    `id` is a stable hash of source, question and gold, so that benchmarks that share rows (`aime`
    and `aime24`) share samples; `benchmark` is the registered name or the file's; `meta` keeps
    what the source said besides (level, subject, people, ...) and, as `origin`, the file's
    content hash or the Hub's commit. `working` is a worked solution, where the source has one.
    """

    id: str
    benchmark: str
    question: str
    gold: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    working: str | None = None

    @property
    def golds(self) -> tuple[str, ...]:
        """The golds of which any is right: the gold alone, unless its column held a list."""
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
