"""Samples that are none of the listed texts, told by their tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from sage_cli.evaluation.exact.others import Others, others_of
from sage_cli.metrics.counts.exact import exact_pass_at_k
from sage_cli.store.samples.completion import Completion, token_ids

END = 9
LISTED = {("a", "S"): (1, 2, END), ("b", "S"): (3, END), ("b", "D"): (4, END)}


def sample(problem: str, ids: tuple[int, ...] | None, text: str = "") -> Completion:
    return Completion(problem, 0, 0, text, len(ids or text), "stop", ids)


def no_text(completion: Completion) -> list[int]:
    raise AssertionError(f"{completion} has its tokens")


def counted(*samples: tuple[Completion, bool]) -> Others:
    return others_of(samples, LISTED, ["a", "b"], no_text)


def test_others_are_counted_by_problem() -> None:
    found = counted(
        (sample("a", (1, 2, END)), True),
        (sample("a", (7, END)), True),
        (sample("a", (8, END)), False),
        (sample("b", (4, END)), True),
        (sample("b", (1, 2, END)), False),
    )
    assert found.m_P.tolist() == [2, 1]
    assert found.c_P.tolist() == [1, 0]
    assert found.share == 1 / 3  # one of three right samples
    assert found.respelt == 0
    assert math.isnan(counted().share)


def test_a_listed_text_without_its_end_is_another() -> None:
    """Truncated at the limit: its tokens have not the chance of the whole text."""
    found = counted((sample("a", (1, 2)), True))
    assert (found.m_P.tolist(), found.c_P.tolist()) == ([1, 0], [1, 0])


@pytest.fixture(scope="module")
def pieces() -> PreTrainedTokenizerFast:
    """A tokenizer that joins a and b to one token."""
    vocabulary = {"a": 0, "b": 1, "ab": 2, "c": 3, "<end>": 4}
    model = Tokenizer(BPE(vocab=vocabulary, merges=[("a", "b")]))
    return PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<end>")


def test_another_split_of_a_listed_text_is_another(pieces: PreTrainedTokenizerFast) -> None:
    """pass@k keeps without bias what the policy gets right in unusual tokens."""
    usual, unusual, wrong = (2, 4), (0, 1, 4), (3, 4)
    assert tuple(pieces("ab")["input_ids"]) == usual[:1]
    assert pieces.decode(unusual[:-1]).replace(" ", "") == "ab"
    p, q, m, k = 0.1, 0.2, 12, 4
    draws = np.random.default_rng(3).choice(3, size=(4000, m), p=[p, q, 1 - p - q])
    values = []
    for row in draws:
        rows = [(sample("a", (usual, unusual, wrong)[i]), i < 2) for i in row]
        found = others_of(rows, {("a", "S"): usual}, ["a"], no_text)
        values += exact_pass_at_k(np.array([p]), found.m_P, found.c_P, [k])[:, 0].tolist()
    # 1 - .7^4 = .7599; one value's SD is below .2, so the mean's is .003. By texts none of the
    # other split would be counted: 1 - .9^4 = .3439
    assert np.nanmean(values) == pytest.approx(1 - (1 - p - q) ** k, abs=0.012)


def test_samples_without_ids_are_read_in_the_usual_tokens(
    pieces: PreTrainedTokenizerFast,
) -> None:
    def usual(completion: Completion) -> list[int]:
        return token_ids(pieces, completion, None)

    cut = Completion("a", 1, 0, "ab", 1, "length")
    rows = [(sample("a", None, "ab"), True), (cut, True)]
    found = others_of(rows, {("a", "S"): (2, 4)}, ["a"], usual)
    assert (found.m_P.tolist(), found.respelt) == ([1], 2)
