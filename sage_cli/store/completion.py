"""One sampled answer, as it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FINISH_REASONS = ("stop", "length")
"""What a whole sample ends by; one that was aborted or filtered is none."""


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


def token_ids(tokenizer: Any, completion: Completion, stop: str | None) -> list[int]:
    """The tokens that were drawn; where they weren't stored, the text cut into tokens again.

    Then the end-of-sequence token follows where that is what ended the text.
    """
    if completion.token_ids is not None:
        return list(completion.token_ids)
    ids: list[int] = tokenizer(completion.text, add_special_tokens=False)["input_ids"]
    stopped_by_text = stop is not None and completion.text.endswith(stop)
    ended = completion.finish_reason == "stop" and not stopped_by_text
    return [*ids, tokenizer.eos_token_id] if ended else ids
