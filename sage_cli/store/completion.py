"""A completion, as every backend yields it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FINISH_REASONS = ("stop", "length")
"""How a whole sample ends. An aborted or filtered one is not stored."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Sample `index` of a problem.

    `text` includes the closing answer tag where the sampler stopped on it; `tokens` counts
    generated tokens; `finish_reason` is `stop` or `length` (truncated at the limit). `token_ids`
    are the sampled ids, None if a server does not return them. `part` names the stored file, None
    before it is stored.
    """

    problem_id: str
    index: int
    seed: int
    text: str
    tokens: int
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    part: str | None = field(default=None, compare=False)


def encodable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def token_ids(tokenizer: Any, completion: Completion, stop: str | None) -> list[int]:
    """Return the sampled tokens, or those of the text if the sampled ones were not stored.

    Tokens of a text end with the end-of-sequence token if that ended the completion.
    """
    if completion.token_ids is not None:
        return list(completion.token_ids)
    ids: list[int] = tokenizer(completion.text, add_special_tokens=False)["input_ids"]
    stopped_by_text = stop is not None and completion.text.endswith(stop)
    ended = completion.finish_reason == "stop" and not stopped_by_text
    return [*ids, tokenizer.eos_token_id] if ended else ids
