"""One sampled answer, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """Sample `index` of a problem.

    `text` includes the closing answer tag where the sampler stopped on it; `tokens` counts
    generated tokens; `finish_reason` is `stop` or `length` (cut off at the limit). `token_ids` are
    the tokens drawn, the end-of-sequence token included; None where the sampler doesn't tell.
    """

    problem_id: str
    index: int
    seed: int
    text: str
    tokens: int
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
