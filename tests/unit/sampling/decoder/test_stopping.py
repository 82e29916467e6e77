"""When a completion ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from sage_cli.models.scratch import bpe_tokenizer
from sage_cli.sampling.decoder.stopping import Ending, Stopping

STOP = "</SOLUTION>"


@pytest.fixture(scope="module")
def bpe() -> PreTrainedTokenizerBase:
    """Merges across the stop text's borders: its last characters share tokens with others."""
    words = ["ON>>", "ION>\n", "x</S", "</SOLUTION", "UTION>.", ">>", "LUT"]
    return bpe_tokenizer([" ".join(words)] * 50, 400, tags=())


def test_text_up_to_the_stop_is_kept_and_the_rest_cut(bpe: PreTrainedTokenizerBase) -> None:
    stopping = Stopping(bpe, [bpe.eos_token_id], len(bpe), STOP, 50)
    ids = bpe.encode(f"a{STOP}>> b")
    assert stopping.endings([ids]) == [Ending(f"a{STOP}", "stop")]
    assert stopping.endings([]) == []


def test_end_of_sequence_and_limit(tokenizer: PreTrainedTokenizerBase) -> None:
    eos = tokenizer.eos_token_id
    stopping = Stopping(tokenizer, [eos], len(tokenizer), STOP, 4)
    three, four = tokenizer.encode("abc"), tokenizer.encode("abcd")
    assert stopping.endings([three, [*three, eos], four]) == [
        None,
        Ending("abc", "stop"),
        Ending("abcd", "length"),
    ]
    last_B = np.array([three[-1], eos, tokenizer.encode(STOP)[-1]])
    assert stopping.may_end(last_B, 3).tolist() == [False, True, True]
    assert stopping.may_end(last_B, 4).tolist() == [True, True, True]


@settings(max_examples=200)
@given(before=st.text("</SOLUTION> .\nx", max_size=12), after=st.text(">/.\n x", max_size=4))
def test_no_token_that_completes_the_stop_is_overlooked(
    bpe: PreTrainedTokenizerBase, before: str, after: str
) -> None:
    stopping = Stopping(bpe, [bpe.eos_token_id], len(bpe), STOP, 10_000)
    ids = bpe.encode(before + STOP + after)
    first = next(end for end in range(1, len(ids) + 1) if STOP in bpe.decode(ids[:end]))
    assert stopping.may_end(np.array([ids[first - 1]]), first).all()


def test_with_a_stop_that_is_not_ascii_every_token_is_looked_at(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    stopping = Stopping(tokenizer, [], len(tokenizer), "。", 100)
    assert stopping.may_end(np.arange(len(tokenizer)), 1).all()
