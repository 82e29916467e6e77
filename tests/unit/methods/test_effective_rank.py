"""Effective ranks and what is made of them, by hand."""

from math import log

import pytest
import torch

from sage_cli.errors import TrainingError
from sage_cli.methods.effective_rank import EffectiveRank, bonus, effective_rank, measures
from sage_cli.methods.formulas import AdvantageInputs


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_the_effective_rank_is_that_of_the_singular_values(shape):
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    values = torch.linalg.svdvals((rows - rows.mean(dim=0)).double())
    shares = (values / values.sum()).tolist()
    expected = torch.tensor(-sum(q * log(q) for q in shares if q > 1e-12)).exp().item()
    assert effective_rank(rows).item() == pytest.approx(expected, rel=1e-5)


def test_ranks_of_one_and_the_bonus_by_hand():
    assert effective_rank(torch.ones(1, 5)).item() == 1
    assert effective_rank(torch.ones(3, 5)).item() == 1
    # d .25, .2, .25; g = 1 / (1 + e^-.5) = .622459; g tanh .25 + (1 - g) tanh .2
    found = bonus(double(2, 0.3, 0.1)[None], double(1.6, 0.25, 0.08))
    assert found.item() == pytest.approx(0.226969, abs=1e-6)


@pytest.mark.parametrize(("tokens", "zeros"), [(2, 2), (4, 2), (5, 1), (6, 1), (7, 0)])
def test_short_completions_have_no_changes(tokens, zeros):
    # prefixes of 2, 4, 6 tokens, shorter than the whole: two make an ERV, three an ERA
    rows = torch.randn(tokens, 4, generator=torch.Generator().manual_seed(1))
    assert (measures(rows, stride=2) == 0).sum() == zeros


def test_the_advantage_and_its_memory():
    rewards_PN = torch.tensor([[1.0, 0, 0]])
    measured_B3 = iter([double(2, 0.3, 0.1).repeat(3, 1), double(3, 0.3, 0.1).repeat(3, 1)])
    memory = {"usual": [1.6, 0.25, 0.08]}
    inputs = AdvantageInputs(
        rewards_PN,
        rewards_PN,
        torch.ones(3, 4),
        0,
        1,
        lambda: None,
        lambda _: next(measured_B3),
        memory,
    )
    found = EffectiveRank().advantages(inputs)
    # A is 2/3 and -1/3 over .57735 + 1e-4: 1.154501 and -.577250; half of it is above Phi .226969
    torch.testing.assert_close(found, torch.tensor([1.381470, -0.350281, -0.350281]))
    # .7 x 1.6 + .3 x 2, .7 x .25 + .3 x .3, .7 x .08 + .3 x .1
    assert memory["usual"] == pytest.approx([1.72, 0.265, 0.086])
    EffectiveRank().advantages(inputs)
    assert memory["usual"][0] == pytest.approx(0.7 * 1.72 + 0.3 * 3)


def test_where_hidden_states_cannot_be_read_it_is_said():
    inputs = AdvantageInputs(
        torch.ones(1, 2), torch.ones(1, 2), torch.ones(2, 3), 0, 1, lambda: None
    )
    with pytest.raises(TrainingError, match="hidden states can't be read here"):
        EffectiveRank().advantages(inputs)
