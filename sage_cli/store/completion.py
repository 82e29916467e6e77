"""One sampled answer, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """Sample `index` of a problem.

    `text` includes the closing answer tag where the sampler stopped on it; `tokens` counts
    generated tokens; `finish_reason` is `stop` or `length` (cut off at the limit).
    """

    problem_id: str
    index: int
    seed: int
    text: str
    tokens: int
    finish_reason: str
