"""Which rows and tokens the anchor holds, and how strongly; `tests/theory` has the estimators."""

import pytest
import torch

from sage_cli.guides.divergences import anchored_rows, equal_rows, share_of_beta, uncertain_tokens

RIGHT_B = torch.tensor([1, 0, 0, 0, 1, 1, 1, 1]).bool()
GROUP_RIGHT_B = torch.tensor([0.25] * 4 + [1.0] * 4)
"""Two groups of four, r = [1, 0, 0, 0] and [1, 1, 1, 1]."""


@pytest.mark.parametrize(("rows", "expected"), [
    ("all", [1, 1, 1, 1, 1, 1, 1, 1]), ("wrong", [0, 1, 1, 1, 0, 0, 0, 0]),
    ("right", [1, 0, 0, 0, 1, 1, 1, 1]), ("informative", [1, 1, 1, 1, 0, 0, 0, 0]),
])  # fmt: skip
def test_which_rows_are_held(rows, expected):
    assert anchored_rows(rows, RIGHT_B, GROUP_RIGHT_B).int().tolist() == expected


@pytest.mark.parametrize(("entropies", "share", "uncertain"), [
    # the .8 quantile of five values is at place 3.2 of 0 to 4, so between the two greatest
    ([0.1, 0.5, 0.3, 0.4, 0.2], 0.2, [0, 1, 0, 0, 0]),
    # of six at place 4, which is a value itself: it is certain
    ([0.1, 0.5, 0.3, 0.4, 0.2, 0.6], 0.2, [0, 0, 0, 0, 0, 1]),
    # of sixteen at place 12
    ([*range(16)], 0.2, [0] * 13 + [1] * 3),
    # equal values are treated alike, and none of them is above their own quantile
    ([0.7, 0.7, 0.7], 0.4, [0, 0, 0]),
    ([0.0, 0.9, 0.9, 0.9], 0.5, [0, 0, 0, 0]),
    ([0.0, 0.0, 0.0, 0.9], 0.5, [0, 0, 0, 1]),
    ([0.4], 0.9, [0]),
    ([], 0.2, []),
])  # fmt: skip
def test_which_tokens_are_uncertain(entropies, share, uncertain):
    """Whatever stands behind the completion, which has more entropy than all of it."""
    length = len(entropies)
    for padding in (int(not length), 2, 5):
        entropy_BT = torch.tensor([[*entropies, *[9.0] * padding], [3.0] * (length + padding)])
        mask_BT = torch.tensor([[1] * length + [0] * padding, [1] * (length + padding)])
        found_BT = uncertain_tokens(entropy_BT, mask_BT, share)
        assert found_BT[0].int().tolist() == uncertain + [0] * padding
        assert not found_BT[1].any()


def test_groups_and_shares_of_beta_by_hand():
    assert equal_rows(torch.tensor([0.0, 0.125, 1.0])).tolist() == [True, False, True]
    # t / T = 0, .25, .5, 1: (1 + cos) / 2 = 1, (1 + .70711) / 2, .5, 0
    found = [1e-3 * share_of_beta("cosine", step, 8) for step in (0, 2, 4, 8)]
    assert found == pytest.approx([1e-3, 8.536e-4, 5e-4, 0], abs=1e-7)
    assert {share_of_beta("constant", step, 8) for step in range(9)} == {1.0}
