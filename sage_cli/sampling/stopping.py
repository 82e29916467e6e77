"""What ends a completion: an end-of-sequence token, its stop text, or the limit of tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.solution_text import stop_end

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase

from sage_cli.sampling.sampler import SamplingParameters

_Ids = Sequence[int]


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
        parameters: SamplingParameters,
    ) -> None:
        import numpy as np  # which a plan does without

        self._tokenizer, self.eos_ids = tokenizer, list(eos_ids)
        self._stop, self._max_tokens = parameters.stop, parameters.max_tokens
        self._opened = parameters.opened or ""
        # an end-of-sequence id may lie beyond the model's vocabulary, in tokenizers that were
        # extended
        size = max([vocabulary, *(token + 1 for token in eos_ids)])
        self._may_end_V = np.zeros(size, dtype=bool)
        self._may_end_V[list(eos_ids)] = True
        if self._stop is not None:
            self._may_end_V |= _may_complete(tokenizer, size, self._stop)

    def may_end(
        self, tokens_B: np.ndarray[Any, Any], count: int
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return the mask (B,) of rows to decode, by their last tokens and common length."""
        mask_B: np.ndarray[Any, np.dtype[np.bool_]] = self._may_end_V[tokens_B]
        return mask_B | (count >= self._max_tokens)

    def endings(self, rows: Sequence[_Ids]) -> list[Ending | None]:
        """Return for each row of token ids its ending, or None if it continues."""
        return [self._ending(ids, text) for ids, text in zip(rows, self._texts(rows), strict=True)]

    def cut(self, ids: _Ids, reason: str) -> tuple[_Ids, Ending]:
        """Return the tokens of a completion up to its stop text, and its ending.

        For an engine that can't tell whether a thought is open, and samples on. `reason` is why
        the engine ended it.
        """
        text = self._texts([ids])[0]
        if (end := self._stop_end(text)) is None:
            return ids, Ending(text, reason)
        # a text grows with its tokens, so that a binary search finds the first number of tokens
        # that contain the stop text: decoding each prefix would be quadratic
        count = bisect_left(
            range(len(ids)), True, key=lambda n: self._stop_end(self._texts([ids[:n]])[0]) == end
        )
        return ids[:count], Ending(text[:end], "stop")

    def stops(self, text: str) -> bool:
        """Return True if the stop text ended this completion."""
        return self._stop_end(text) is not None

    def _texts(self, rows: Sequence[_Ids]) -> list[str]:
        if not rows:
            return []
        texts: list[str] = self._tokenizer.batch_decode(
            rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts

    def _ending(self, ids: _Ids, text: str) -> Ending | None:
        if (end := self._stop_end(text)) is not None:
            return Ending(text[:end], "stop")
        if ids[-1] in self.eos_ids:
            return Ending(text, "stop")
        return Ending(text, "length") if len(ids) >= self._max_tokens else None

    def _stop_end(self, text: str) -> int | None:
        end = stop_end(self._opened + text, self._stop)
        return None if end is None else end - len(self._opened)


def _may_complete(
    tokenizer: PreTrainedTokenizerBase, vocabulary: int, stop: str
) -> np.ndarray[Any, Any]:
    """Return the mask (V,) of tokens after which a text may newly contain `stop`.

    Such a token contains `stop` or begins with a suffix of it. If `stop` is not ASCII, a character
    of it may be spread over tokens, so all tokens count.
    """
    import numpy as np

    if not stop.isascii():
        return np.ones(vocabulary, dtype=bool)
    # the token that completes the stop text contains its end: some suffix of it, at the token's
    # beginning
    suffixes = tuple(stop[start:] for start in range(len(stop)))
    texts = tokenizer.batch_decode(
        [[token] for token in range(vocabulary)], clean_up_tokenization_spaces=False
    )
    return np.array([stop in text or text.startswith(suffixes) for text in texts])


def eos_ids(of_model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the end-of-sequence ids of the tokenizer and of the model's generation settings.

    `of_model` is `eos_token_id` of the latter: a number, a list of them, or None.
    """
    ids = of_model if isinstance(of_model, list) else [of_model]
    return sorted({token for token in (*ids, tokenizer.eos_token_id) if token is not None})
