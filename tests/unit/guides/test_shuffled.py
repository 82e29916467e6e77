"""The shuffled guide has the branch guide's factors, each at another token of its completion."""

import torch

from sage_cli.guides import BranchGuide, ShuffledGuide, Signals


def signals(rows=3, tokens=40):
    generator = torch.Generator().manual_seed(5)
    entropy_BT = 4 * torch.rand(rows, tokens, generator=generator)
    # the first row has a prompt's end before it and padding behind it, the last one is whole
    mask_BT = torch.ones(rows, tokens)
    mask_BT[0, :3] = mask_BT[0, 30:] = 0
    return Signals(-entropy_BT, entropy_BT, mask_BT, torch.arange(rows))


def test_a_completion_has_branchs_factors_in_a_fair_order_of_its_own():
    batch = signals()
    branch_BT = BranchGuide().log_q(batch, step=4)
    shuffled_BT = ShuffledGuide().log_q(batch, step=4)
    assert torch.equal(branch_BT.sort(dim=1).values, shuffled_BT.sort(dim=1).values)
    assert not torch.equal(branch_BT, shuffled_BT)
    assert (shuffled_BT[0, :3] == 0).all()
    assert (shuffled_BT[0, 30:] == 0).all()
    # one of four tokens is above tau; over 4,000 rows each place has it in a quarter, and the
    # standard error of a share is (.25 x .75 / 4,000)^.5 = .0068: five of them are allowed
    rows = 4000
    entropy_BT = torch.tensor([[0.0, 0.0, 3.0, 0.0]]).repeat(rows, 1)
    batch = Signals(-entropy_BT, entropy_BT, torch.ones(rows, 4), torch.arange(rows))
    shares = (ShuffledGuide().log_q(batch, step=0) > 0).double().mean(dim=0)
    torch.testing.assert_close(shares, torch.full((4,), 0.25).double(), atol=0.034, rtol=0)
    batch = signals()
    same = Signals(
        batch.logps_BT[1:2].repeat(3, 1), batch.entropy_BT[1:2].repeat(3, 1),
        torch.ones(3, 40), torch.arange(3),
    )  # fmt: skip
    guide = ShuffledGuide()
    rows = [*guide.log_q(same, 0), *guide.log_q(same, 1), *ShuffledGuide(seed=1).log_q(same, 0)]
    assert len({tuple(row.tolist()) for row in rows}) == 9
