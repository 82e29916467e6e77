"""When a completion ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.models.tokenizer import bpe_tokenizer
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.sampling.stopping import Ending, Stopping

STOP = "</SOLUTION>"


def ending_at(stop, max_tokens=1000, opened=None):
    return SamplingParameters(1.0, 1.0, 0, 0.0, max_tokens, stop, opened)


@pytest.fixture(scope="module")
def bpe():
    """Merges across the stop text's borders: its last characters share tokens with others."""
    words = ["ON>>", "ION>\n", "x</S", "</SOLUTION", "UTION>.", ">>", "LUT"]
    return bpe_tokenizer([" ".join(words)] * 50, 400, tags=())


def test_text_up_to_the_stop_is_kept_and_the_rest_cut(bpe):
    stopping = Stopping(bpe, [bpe.eos_token_id], len(bpe), ending_at(STOP, 50))
    ids = bpe.encode(f"a{STOP}>> b")
    assert stopping.endings([ids]) == [Ending(f"a{STOP}", "stop")]
    assert stopping.endings([]) == []


def test_ends_limits_and_stops_that_are_not_ascii(tokenizer):
    eos = tokenizer.eos_token_id
    stopping = Stopping(tokenizer, [eos], len(tokenizer), ending_at(STOP, 4))
    three, four = tokenizer.encode("abc"), tokenizer.encode("abcd")
    assert stopping.endings([three, [*three, eos], four]) == [
        None,
        Ending("abc", "stop"),
        Ending("abcd", "length"),
    ]
    last_B = np.array([three[-1], eos, tokenizer.encode(STOP)[-1]])
    assert stopping.may_end(last_B, 3).tolist() == [False, True, True]
    assert stopping.may_end(last_B, 4).tolist() == [True, True, True]
    stopping = Stopping(tokenizer, [], len(tokenizer), ending_at("。", 100))
    assert stopping.may_end(np.arange(len(tokenizer)), 1).all()


@settings(max_examples=200)
@given(before=st.text("</SOLUTION> .\nx", max_size=12), after=st.text(">/.\n x", max_size=4))
def test_no_token_that_completes_the_stop_is_overlooked(bpe, before, after):
    stopping = Stopping(bpe, [bpe.eos_token_id], len(bpe), ending_at(STOP, 10_000))
    ids = bpe.encode(before + STOP + after)
    first = next(end for end in range(1, len(ids) + 1) if STOP in bpe.decode(ids[:end]))
    assert stopping.may_end(np.array([ids[first - 1]]), first).all()


QUOTED = "I place it between <SOLUTION> and </SOLUTION>. It is 42."
ANSWER = "<SOLUTION>42</SOLUTION>"
ENDED = [
    # what the prompt has opened, the completion as the model would write it, where it ends
    (None, f"{ANSWER} and on", ANSWER),
    ("", f"{ANSWER} and on", ANSWER),
    ("", f"<think>{QUOTED}</think>{ANSWER} and on", f"<think>{QUOTED}</think>{ANSWER}"),
    (None, f"<think>{QUOTED}</think>{ANSWER} and on", f"<think>{QUOTED}</think>{ANSWER}"),
    ("<think>", f"{QUOTED}</think>{ANSWER} and on", f"{QUOTED}</think>{ANSWER}"),
    ("<think>", f"{QUOTED}{ANSWER} and on", None),
    ("", f"<think>{QUOTED}{ANSWER} and on", None),
    ("<think>", f"a</think><think>{STOP}</think>{STOP}!", f"a</think><think>{STOP}</think>{STOP}"),
]


@pytest.mark.parametrize(("opened", "written", "ended"), ENDED)
def test_a_stop_text_is_heard_outside_thoughts_by_the_loop_and_by_who_cuts(
    bpe, opened, written, ended
):
    stopping = Stopping(bpe, [bpe.eos_token_id], len(bpe), ending_at(STOP, opened=opened))
    ids = bpe.encode(written)
    looked_at = [n for n in range(1, len(ids) + 1) if stopping.may_end(np.array([ids[n - 1]]), n)]
    first = next((n for n in looked_at if stopping.endings([ids[:n]])[0]), None)
    if ended is None:
        assert first is None
        assert stopping.cut(ids, "length") == (ids, Ending(written, "length"))
        assert not stopping.stops(written)
        return
    assert first is not None
    assert stopping.endings([ids[:first]]) == [Ending(ended, "stop")]
    assert stopping.cut(ids, "length") == (ids[:first], Ending(ended, "stop"))
    assert stopping.stops(written)


def test_an_engine_that_knows_no_thoughts_is_told_of_no_stop_text_where_there_may_be_one():
    assert ending_at(STOP).engine_stop == STOP
    assert ending_at(STOP, opened="").engine_stop is None
    assert ending_at(STOP, opened="<think>").engine_stop is None
