"""One sampled answer, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Completion:
    """Sample `index` of a problem.

    `text` includes the closing answer tag where the sampler stopped on it; `tokens` counts
    generated tokens; `finish_reason` is `stop` or `length` (cut off at the limit). `token_ids` are
    the ids that were drawn, None where a server doesn't tell. `part` names the file that holds it,
    None while it isn't stored.
    """

    problem_id: str
    index: int
    seed: int
    text: str
    tokens: int
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    part: str | None = field(default=None, compare=False)
