"""Probabilities of given texts against enumeration, and under cut decoding by plain code."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from random_model import random_model

from sage_cli.errors import DivergedError
from sage_cli.models.scratch import character_tokenizer
from sage_cli.sampling.chances import Pair, text_logps
from sage_cli.sampling.sampler import SamplingParameters

DECODINGS = [
    SamplingParameters(1.0, 1.0, 0, 0.0, 8, None),
    SamplingParameters(0.7, 1.0, 0, 0.0, 8, None),
    SamplingParameters(1.3, 0.8, 0, 0.0, 8, None),
    SamplingParameters(1.0, 1.0, 5, 0.0, 8, None),
    SamplingParameters(1.0, 0.9, 20, 0.05, 8, None),
    SamplingParameters(0.0, 1.0, 0, 0.0, 8, None),
]


@pytest.fixture(scope="module")
def model() -> Any:
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 64}
    made = random_model(tokenizer, seed=5, std=None, tie_word_embeddings=False, **sizes)
    with torch.no_grad():
        made.lm_head.weight.mul_(60)
    return made.eval()


def plain(model: Any, pair: Pair, p: SamplingParameters) -> float:
    """One text, one token at a time, in double precision, as the papers define the cuts."""
    prompt, text = list(pair[0]), pair[1]
    total = 0.0
    for token in text:
        with torch.inference_mode():
            logits = model(torch.tensor([prompt])).logits[0, -1].double().numpy()
        if p.temperature == 0:
            total += 0.0 if logits.argmax() == token else -np.inf
        else:
            weights = np.exp((logits - logits.max()) / p.temperature)
            if p.top_k:
                weights[weights < np.sort(weights)[-p.top_k]] = 0
            shares = weights / weights.sum()
            order = np.argsort(-shares)
            before = np.cumsum(shares[order]) - shares[order]
            weights[order[before >= p.top_p]] = 0
            weights[weights < p.min_p * weights.max()] = 0
            chance = weights[token] / weights.sum()
            total += np.log(chance) if chance else -np.inf
        prompt.append(token)
    return total


def test_all_texts_of_two_tokens_have_probability_one_together(model: Any) -> None:
    size = model.config.vocab_size
    pairs = [((3, 4, 5), text) for text in product(range(size), repeat=2)]
    logps_DR = text_logps(model, pairs, DECODINGS)
    assert np.exp(logps_DR).sum(axis=1) == pytest.approx(np.ones(len(DECODINGS)), abs=1e-4)


def test_each_decoding_is_that_of_plain_code(model: Any) -> None:
    """Prompts and texts of several lengths, so that rows are padded."""
    generator = np.random.default_rng(2)
    size, pairs = model.config.vocab_size, []
    for place in range(40):
        prompt = tuple(generator.integers(0, size, 1 + place % 5).tolist())
        with torch.inference_mode():  # likely tokens, so that cuts leave some texts
            text, ids = [], list(prompt)
            for _ in range(1 + place % 4):
                best = model(torch.tensor([ids])).logits[0, -1].topk(8).indices
                token = int(best[generator.integers(0, 2 + place % 7)])
                text.append(token)
                ids.append(token)
        pairs.append((prompt, tuple(text)))
    found = text_logps(model, pairs, DECODINGS)
    expected = np.array([[plain(model, pair, p) for pair in pairs] for p in DECODINGS])
    assert np.isfinite(expected).any(axis=1).all()
    assert np.isinf(expected[2:]).any(axis=1).all()  # something is cut by each
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_a_text_that_is_too_long_is_never_sampled(model: Any) -> None:
    found = text_logps(model, [((3,), (4,) * 9), ((3,), (4,) * 8)], DECODINGS[:1])
    assert found[0, 0] == -np.inf
    assert np.isfinite(found[0, 1])


@pytest.mark.parametrize("decoding", DECODINGS)
def test_a_model_that_gives_nan_is_an_error(model: Any, decoding: SamplingParameters) -> None:
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.lm_head.weight[0, 0] = torch.nan
    with pytest.raises(DivergedError, match="not finite"):
        text_logps(broken, [((3,), (4, 5))], [decoding])
