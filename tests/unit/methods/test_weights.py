"""Advantages of grades, likelihoods and the reference, by hand."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from torch import Tensor

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.methods.formulas import AdvantageInputs, group_advantages
from sage_cli.methods.mara import Mara, mode_anchored_rewards
from sage_cli.methods.maxrl import maxrl_advantages
from sage_cli.methods.rs_grpo import risk_advantages
from sage_cli.methods.ucpo import Ucpo, rarity_factors
from sage_cli.methods.unlikeliness import Unlikeliness, unlikely_rewards


def group(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def inputs(right_PN: Tensor, logps_PN: Tensor | None = None, tokens: int = 1, **more):
    """One prompt; each completion's log-probability is spread evenly over its tokens."""
    rows = right_PN.numel()
    logps_BT = torch.zeros(rows, tokens + 1, dtype=torch.float64)
    if logps_PN is not None:
        logps_BT[:, :tokens] = logps_PN.reshape(-1, 1) / tokens
    logps_BT[:, tokens] = -99.0  # behind the end: counts nowhere
    mask_BT = torch.ones(rows, tokens + 1).long()
    mask_BT[:, tokens] = 0
    signals = (logps_BT, torch.zeros_like(logps_BT))
    reference = {"read_reference": lambda: logps_BT} if more.pop("anchored", False) else {}
    return AdvantageInputs(
        right_PN.clone(), right_PN, mask_BT, 0, 10, lambda: signals, **reference, **more
    )


def test_maxrl_divides_by_the_success_rate():
    # c = 1 of 8: (1 - 1/8) / (1/8 + 1e-6) = 6.999944, (-1/8) / (1/8 + 1e-6) = -.999992
    found = maxrl_advantages(group(1, 0, 0, 0, 0, 0, 0, 0))
    torch.testing.assert_close(found[0, :2], group(6.999944, -0.999992)[0], atol=1e-6, rtol=0)
    # c = 4: (1/2) / (1/2) ; c = 7: (1/8) / (7/8) = 1/7, and (-7/8) / (7/8)
    assert maxrl_advantages(group(1, 1, 1, 1, 0, 0, 0, 0)).abs().sub(1).abs().max() < 1e-5
    found = maxrl_advantages(group(1, 1, 1, 1, 1, 1, 1, 0))
    torch.testing.assert_close(found[0, 6:], group(1 / 7, -1)[0], atol=2e-6, rtol=0)
    assert (maxrl_advantages(group(0, 0, 0)) == 0).all()


@pytest.mark.parametrize(("p", "n", "weight"), [(0.1, 8, 5.217031), (0.5, 8, 1.984375)])
def test_maxrl_weighs_a_problem_by_its_truncated_inverse_success_rate(p, n, weight):
    """E[mean of A d log pi] over all outcomes of n samples is weight x d p; d log pi = s / p."""
    # score of a right sample (1 - p), of a wrong one -p, in units in which d p = p (1 - p)
    expected = sum((1 - p) ** (k - 1) for k in range(1, n))
    assert expected == pytest.approx(weight, abs=1e-6)
    total = 0.0
    for bits in range(2**n):
        right = torch.tensor([[bits >> i & 1 for i in range(n)]], dtype=torch.float64)
        chance = p ** right.sum().item() * (1 - p) ** (n - right.sum().item())
        score = torch.where(right.bool(), 1 - p, -p)
        total += chance * (maxrl_advantages(right) * score).mean().item()
    assert total / (p * (1 - p)) == pytest.approx(weight, rel=1e-4)


@pytest.mark.parametrize("shift", [0.0, -100.0])
@pytest.mark.parametrize("rewards", [(100, 0, 0, 50), (100, 99.5, 99, 98), (1, 0, 0, 1)])
def test_risk_advantages_of_large_rewards_are_the_plain_formulas(rewards, shift):
    """In double precision, whose exponents reach 709; those of single precision end at 88."""
    rewards_PN = group(*(reward + shift for reward in rewards))
    utility_PN = (2.0 * rewards_PN.double()).exp()
    plain_PN = (utility_PN / utility_PN.mean() - 1) / 2.0
    found_PN = risk_advantages(rewards_PN.float(), 2.0)
    torch.testing.assert_close(found_PN, plain_PN.float(), atol=1e-5, rtol=1e-5)


def test_risk_towards_0_is_the_centred_reward():
    found = risk_advantages(group(1, 0, 0, 0.5), 1e-6)
    torch.testing.assert_close(found, group(0.625, -0.375, -0.375, 0.125), atol=1e-5, rtol=0)


LIKELY = group(-2, -8, -5, -3)


def test_likely_right_completions_are_worth_less():
    # ranks 3, 0, 1, 2: 1 - .25 x 3/4 = .8125, and 1
    assert unlikely_rewards(group(1, 1, 0, 0), LIKELY, 0.25).tolist() == [[0.8125, 1, 0, 0]]
    # all right: 1 - .25 rank / 4
    found = unlikely_rewards(group(1, 1, 1, 1), LIKELY, 0.25)
    assert found.tolist() == [[0.8125, 1, 0.9375, 0.875]]


def test_unlikeliness_sums_over_a_completions_tokens():
    found = Unlikeliness().advantages(inputs(group(1, 1, 0, 0), LIKELY, tokens=3))
    expected = group_advantages(group(0.8125, 1, 0, 0)).flatten()
    torch.testing.assert_close(found, expected)
    # published with 1e-6 beside the deviation: .679612, 1.034192, -.856902
    assert found.tolist() == pytest.approx([0.679612, 1.034192, -0.856902, -0.856902], abs=4e-4)


def test_ucpo_moves_credit_to_the_rarer_right_completion():
    # mean logs -.2, -.8: w = e^.2 / (e^.2 + e^.8) = .354344; factors .8 + .4 w
    factor = rarity_factors(group(1, 1, 0, 0), group(-0.2, -0.8, -0.1, -0.3), 0.2)
    w = exp(0.2) / (exp(0.2) + exp(0.8))
    torch.testing.assert_close(factor, group(0.8 + 0.4 * w, 0.8 + 0.4 * (1 - w), 1, 1))
    found = Ucpo().advantages(inputs(group(1, 1, 0, 0), group(-2, -8, -1, -3), tokens=10))
    assert found.tolist() == pytest.approx([0.815427, 0.916324, -0.865875, -0.865875], abs=2e-6)


def test_ucpo_without_a_right_completion_is_grpo():
    assert Ucpo().advantages(inputs(group(0, 0, 0), group(-1, -2, -3))).tolist() == [0, 0, 0]


def test_mode_anchored_rewards_by_hand():
    # z is the first: 0, .05 x 4, .05 x 8
    found = mode_anchored_rewards(group(1, 1, 1, 0), group(-5, -9, -13, -4), 0.05)
    torch.testing.assert_close(found, group(1, 1.2, 1.4, 0))
    given = inputs(group(1, 1, 1, 0), group(-5, -9, -13, -4), 4, beta=0.05, anchored=True)
    assert Mara().advantages(given).tolist() == pytest.approx(
        [0.160791, 0.482373, 0.803955, -1.447119], abs=1e-6
    )
    # means over 4 tokens are a quarter: 1, 1.05, 1.1
    by_token = Mara(likelihood="token").advantages(given)
    torch.testing.assert_close(by_token, group_advantages(group(1, 1.05, 1.1, 0)).flatten())
    # no reward rises by more than .3
    cut = Mara(most_added=0.3).advantages(given)
    torch.testing.assert_close(cut, group_advantages(group(1, 1.2, 1.3, 0)).flatten())


def test_mara_leads_to_equally_likely_right_answers():
    """The optimum P exp(r' / beta) / Z, over P = (.6, .3, .1) with the first two right."""
    P, beta = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64), 0.25
    rewards = mode_anchored_rewards(group(1, 1, 0), P.log(), beta)
    torch.testing.assert_close(rewards, group(1, 1 + 0.25 * log(2), 0))
    optimum = torch.softmax(P.log() + rewards / beta, dim=1)
    torch.testing.assert_close(optimum, group(0.499238, 0.499238, 0.001524), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rl.algo=mara", "anchor.kl=none"], "without a reverse KL of some weight it is grpo"),
        (["rl.algo=mara", "anchor.beta=0"], "without a reverse KL of some weight it is grpo"),
        (["rl.algo=nsr", "rl.dynamic_sampling=true"], "learns from groups of equal grades"),
        (["rl.algo=unlikeliness", "rl.dynamic_sampling=true"], "learns from groups of equal gr"),
        (["rl.algo=maxrl", "rl.overlong_buffer=0.2"], "reads grades alone"),
        (["rl.algo=psr", "rl.overlong_buffer=0.2"], "reads grades alone"),
    ],
)
def test_what_cannot_act_is_refused(words, said):
    with pytest.raises(ConfigurationError, match=said):
        load(["tiny"], sets=words)


def test_a_training_without_a_reference_is_named():
    with pytest.raises(TrainingError, match="there is no reference"):
        Mara().advantages(inputs(group(1, 0), group(-1, -2)))
