"""The end of completions: end-of-sequence, the stop text, or the limit of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Ending:
    """A finished completion's text and why it ended: `stop` or `length`."""

    text: str
    reason: str


class Stopping:
    """Decodes a row only if its last token can have ended it."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: Sequence[int],
        vocabulary: int,
        stop: str | None,
        max_tokens: int,
    ) -> None:
        self._tokenizer, self._stop, self._max_tokens = tokenizer, stop, max_tokens
        self._eos_ids = frozenset(eos_ids)
        self._may_end_V = np.zeros(vocabulary, dtype=bool)
        self._may_end_V[list(eos_ids)] = True
        if stop is not None:
            self._may_end_V |= _may_complete(tokenizer, vocabulary, stop)

    def may_end(
        self, tokens_B: np.ndarray[Any, Any], count: int
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return the mask (B,) of rows to decode, by their last tokens and common length."""
        mask_B: np.ndarray[Any, np.dtype[np.bool_]] = self._may_end_V[tokens_B]
        return mask_B | (count >= self._max_tokens)

    def endings(self, rows: Sequence[Sequence[int]]) -> list[Ending | None]:
        """Return for each row of token ids its ending, or None if it continues."""
        if not rows:
            return []
        texts = self._tokenizer.batch_decode(
            rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return [self._ending(ids, text) for ids, text in zip(rows, texts, strict=True)]

    def _ending(self, ids: Sequence[int], text: str) -> Ending | None:
        if self._stop is not None and (at := text.find(self._stop)) >= 0:
            return Ending(text[: at + len(self._stop)], "stop")
        if ids[-1] in self._eos_ids:
            return Ending(text, "stop")
        return Ending(text, "length") if len(ids) >= self._max_tokens else None


def _may_complete(
    tokenizer: PreTrainedTokenizerBase, vocabulary: int, stop: str
) -> np.ndarray[Any, Any]:
    """Return the mask (V,) of tokens after which a text may newly contain `stop`.

    Such a token contains `stop` or begins with a suffix of it. If `stop` is not ASCII, a character
    of it may be spread over tokens, so all tokens count.
    """
    if not stop.isascii():
        return np.ones(vocabulary, dtype=bool)
    suffixes = tuple(stop[start:] for start in range(len(stop)))
    texts = tokenizer.batch_decode(
        [[token] for token in range(vocabulary)], clean_up_tokenization_spaces=False
    )
    return np.array([stop in text or text.startswith(suffixes) for text in texts])
