"""The choice of tokens: against `generate`'s distribution, and at its extremes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from sage_cli.errors import DivergedError
from sage_cli.sampling import choosing
from sage_cli.sampling.choosing import choose, choose_by_sample, kept_weights, sample_uniforms
from sage_cli.sampling.sampler import SamplingParameters


def parameters(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0):
    return SamplingParameters(temperature, top_p, top_k, min_p, 8, None)


def test_uniforms_are_splitmix64_and_uncorrelated():
    # The generator's published outputs for seed 1234567 (Vigna's splitmix64.c), top 52 bits.
    outputs = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    seeds_B = np.full(5, 1234567, dtype=np.uint64)
    expected_B = [(output >> 12) / 2**52 for output in outputs]
    assert sample_uniforms(seeds_B, np.arange(5)).tolist() == expected_B
    seeds_B, steps_B = np.meshgrid(np.arange(400, dtype=np.uint64), np.arange(50))
    u_ST = sample_uniforms(seeds_B.ravel(), steps_B.ravel()).reshape(50, 400)
    # 20,000 numbers: the Kolmogorov-Smirnov statistic passes 1.95 / sqrt(20000) = 0.0138 once
    # in a thousand; a correlation has standard deviation 1 / sqrt(20000) = 0.007.
    sorted_N = np.sort(u_ST.ravel())
    assert np.abs(sorted_N - (np.arange(20_000) + 0.5) / 20_000).max() < 0.0138
    for axis in (0, 1):
        a, b = np.take(u_ST, range(49), axis), np.take(u_ST, range(1, 50), axis)
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.03


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), [
    (1.0, 0, 1.0, 0.0), (0.3, 0, 1.0, 0.01), (1.7, 5, 1.0, 0.0), (1.0, 0, 0.7, 0.0),
    (0.9, 7, 0.8, 0.1), (1.0, 999, 0.05, 0.0),
])  # fmt: skip
def test_the_distribution_is_that_of_generate(temperature, top_k, top_p, min_p):
    torch.manual_seed(0)
    logits_1V = 2 * torch.randn(1, 12)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    expected_V = warpers(None, logits_1V).softmax(-1)[0].numpy()
    # Inverting a distribution on a regular grid of N numbers hits a token N p times, give or
    # take one, so the frequencies are exact to 1 / N.
    grid = 20_000
    u_N = (np.arange(grid) + 0.5) / grid
    p = parameters(temperature, top_p, top_k, min_p)
    drawn_1N = choose(logits_1V, u_N[None], p).numpy()
    frequencies_V = np.bincount(drawn_1N[0], minlength=12) / grid
    assert np.abs(frequencies_V - expected_V).max() < 1.5 / grid + 1e-6
    assert not frequencies_V[expected_V == 0].any()


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=40), st.sampled_from([0.0, 0.5]))
def test_the_extreme_uniforms_choose_possible_tokens(logits, min_p):
    logits_BV = torch.tensor([logits, logits])
    extremes_BN = np.array([[0.0, 1 - 2.0**-52], [1 - 2.0**-52, 0.0]])
    drawn_BN = choose(logits_BV, extremes_BN, parameters(min_p=min_p))
    weights_V = (logits_BV[0] - logits_BV[0].max()).exp()
    assert (weights_V[drawn_BN] > 0).all()
    assert (weights_V[drawn_BN] >= min_p).all()


@pytest.mark.parametrize("cached", [1, 50_000, 2**21])  # rows at a time: 1, 2 or 3, all
@pytest.mark.parametrize("vocabulary", [16_383, 16_384, 20_011])
@pytest.mark.parametrize(("spread", "min_p"), [(1.0, 0.0), (6.0, 0.3), (2000.0, 0.0)])
def test_a_large_vocabulary_is_inverted_as_by_its_cumulative_distribution(
    vocabulary, spread, min_p, cached, monkeypatch
):
    monkeypatch.setattr(choosing, "_CACHED", cached)
    torch.manual_seed(0)
    logits_BV = spread * torch.randn(4, vocabulary)
    logits_BV[2, -1] = 1e4  # all the weight is the last token's
    edges = [0.0, 2.0**-60, 0.5, 1 - 2.0**-52]
    numbers_BN = np.array([[*edges, *np.random.default_rng(row).random(400)] for row in range(4)])
    weights_BV = kept_weights(logits_BV, parameters(min_p=min_p)).double().numpy()
    ends_BV = np.cumsum(weights_BV, axis=1)
    targets_BN = numbers_BN * ends_BV[:, -1:]
    expected_BN = [np.searchsorted(*row, "right") for row in zip(ends_BV, targets_BN, strict=True)]
    chosen_BN = choose(logits_BV, numbers_BN, parameters(min_p=min_p)).numpy()
    assert (np.take_along_axis(weights_BV, chosen_BN, 1) > 0).all()
    # at the very edges, sums in another order may end a token earlier
    assert (chosen_BN[:, 4:] == np.array(expected_BN)[:, 4:]).all()
    assert (chosen_BN[2] == vocabulary - 1).all()


def test_the_last_number_chooses_no_token_behind_the_last_block():
    """Weights of a wide range in the last block: its sum and cumulative sum are rounded apart."""
    torch.manual_seed(0)
    logits_BV = torch.full((500, 16_384), -torch.inf)
    logits_BV[:, -128:] = -20 * torch.rand(500, 128)
    logits_BV[:, -128] = 0.0
    chosen_B1 = choose(logits_BV, np.full((500, 1), 1 - 2.0**-52), parameters())
    assert int(chosen_B1.max()) < 16_384


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_a_model_that_gives_no_distribution_has_diverged(temperature, wrong):
    """A single -inf forbids a token; a row of nothing else is no distribution."""
    whole, broken = [0.0, float("-inf"), 1.0], [wrong] * 3
    how = parameters(temperature=temperature)
    assert choose(torch.tensor([whole]), np.array([[0.999]]), how).item() == 2
    with pytest.raises(
        DivergedError, match="model's logits for the next token are NaN or infinite:"
    ):
        choose(torch.tensor([whole, broken]), np.array([[0.5], [0.5]]), how)


def test_temperature_zero_takes_the_first_most_likely_token():
    logits_BV = torch.tensor([[0.0, 3.0, 3.0], [5.0, 1.0, 2.0]])
    drawn_BN = choose(logits_BV, np.array([[0.9, 0.1], [0.9, 0.1]]), parameters(temperature=0.0))
    assert drawn_BN.tolist() == [[1, 1], [0, 0]]


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 0.999)), min_size=1, max_size=30))
def test_samples_that_share_a_row_draw_as_if_each_had_its_own(samples):
    torch.manual_seed(1)
    logits_BV = torch.randn(5, 7)
    rows_S = np.array([row for row, _ in samples])
    u_S = np.array([u for _, u in samples])
    p = parameters(temperature=0.8, top_k=5)
    alone = choose(logits_BV[rows_S], u_S[:, None], p)[:, 0]
    assert choose_by_sample(logits_BV, rows_S, u_S, p).tolist() == alone.tolist()
