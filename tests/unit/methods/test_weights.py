"""Advantages of grades, likelihoods and the reference, by hand."""

import pytest
import torch

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.methods.formulas import AdvantageInputs, group_advantages
from sage_cli.methods.reweighted import Mara, mode_anchored_rewards, risk_advantages


def group(*values):
    return torch.tensor([values], dtype=torch.float64)


def inputs(right_PN, logps_PN=None, tokens=1, **more):
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


@pytest.mark.parametrize("shift", [0.0, -100.0])
@pytest.mark.parametrize("rewards", [(100, 0, 0, 50), (100, 99.5, 99, 98), (1, 0, 0, 1)])
def test_risk_advantages_of_large_rewards_are_the_plain_formulas(rewards, shift):
    """In double precision, whose exponents reach 709; those of single precision end at 88."""
    rewards_PN = group(*(reward + shift for reward in rewards))
    utility_PN = (2.0 * rewards_PN.double()).exp()
    plain_PN = (utility_PN / utility_PN.mean() - 1) / 2.0
    found_PN = risk_advantages(rewards_PN.float(), 2.0)
    torch.testing.assert_close(found_PN, plain_PN.float(), atol=1e-5, rtol=1e-5)


def test_advantages_by_hand_and_a_reference_that_they_need():
    found = risk_advantages(group(1, 0, 0, 0.5), 1e-6)
    torch.testing.assert_close(found, group(0.625, -0.375, -0.375, 0.125), atol=1e-5, rtol=0)
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
    with pytest.raises(TrainingError, match="there is no reference"):
        Mara().advantages(inputs(group(1, 0), group(-1, -2)))


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


def test_who_is_not_rated_changes_nobodys_advantage():
    """Of 1, 0 and two without a reward: mean .5, deviation sqrt(.5 / 1) of two, as if they alone
    were there. A rated completion alone, and a group of none, have 0."""
    rewards_PN = torch.tensor([[1.0, 0.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    rated_PN = torch.tensor([[True, True, False, False], [True, False, False, False], [False] * 4])
    value = 0.5 / (0.5**0.5 + 1e-4)
    expected = torch.tensor([[value, -value, 0, 0], [0] * 4, [0] * 4])
    torch.testing.assert_close(group_advantages(rewards_PN, rated_PN), expected)
    everyone = torch.ones(1, 4, dtype=torch.bool)
    assert torch.equal(group_advantages(rewards_PN[:1], everyone), group_advantages(rewards_PN[:1]))
