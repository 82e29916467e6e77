"""What is shaped in every update, by hand."""

from math import exp, log

import pytest
import torch

from sage_cli.methods.formulas import Update
from sage_cli.methods.token_shapes import ClipCov, KlCov, Steer, steer_omega


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def update(advantages_BT, logps_BT, **given):
    """On-policy unless `old_logps_BT` says otherwise; all tokens count unless `mask_BT` does."""
    entropy_BT = given.pop("entropy_BT", torch.zeros_like(logps_BT))
    values = {
        "old_logps_BT": logps_BT.detach(),
        "old_entropy_BT": entropy_BT,
        "mask_BT": torch.ones_like(logps_BT).long(),
        "clip": (0.2, 0.28),
        "step": 0,
        "seed": (1, 0, 0, 0),
    } | given
    return Update(advantages_BT, logps_BT, entropy_BT=entropy_BT, **values)


STEERED = update(
    row(1, 1, -1), row(0.5, 0.9, 0.1).log(), entropy_BT=row(log(2), 0.4, 1.5)
)  # fmt: skip
OPTIONS = {"omega": "code", "minimum_weight": 0.8, "maximum_weight": 1.2}


def test_steers_weights_by_hand():
    # 1.2 - .4 x .029464 / .722327; .8 ^ (.029464 / .722327)
    found = Steer(form="linear", **OPTIONS).shape(STEERED)
    torch.testing.assert_close(found, row(1.2, 1.183684, -0.8), atol=1e-6, rtol=0)
    found = Steer(form="exp", **OPTIONS).shape(STEERED)
    torch.testing.assert_close(found, row(1, 0.990939, -0.8), atol=1e-6, rtol=0)
    # |A| 1e-3: Omega (0, 2.9464e-5, 7.22327e-4), all far below .02
    given = update(1e-3 * row(1, 1, -1), STEERED.logps_BT, entropy_BT=STEERED.entropy_BT)
    expected = -1e-3 * exp(log(0.8) * 7.22327e-4 / 0.02)
    steered = Steer(form="exp", **OPTIONS).shape(given)
    assert steered[0, 2].item() == pytest.approx(expected, abs=1e-9)
    # pi .5, pi_old .4, H_old 1, H 2: code .5/.4 x .5 x (ln .5 + 1); paper .. x .5 x (ln .5 + 2)
    given = update(
        row(1), row(log(0.5)), old_logps_BT=row(log(0.4)), entropy_BT=row(2), old_entropy_BT=row(1)
    )
    assert steer_omega(given, "code").item() == pytest.approx(1.25 * 0.5 * (log(0.5) + 1))
    assert steer_omega(given, "paper").item() == pytest.approx(1.25 * 0.25 * (log(0.5) + 2))


def test_under_the_papers_omega_clipped_tokens_keep_their_weight():
    # ratios 1.5 and 1: the first is past 1.28 and pushed further
    given = update(
        row(1, 1), row(-1, -1), old_logps_BT=row(-1 - log(1.5), -1), entropy_BT=row(3, 2)
    )
    weights = Steer(form="exp", **OPTIONS | {"omega": "paper"}).shape(given)
    assert weights[0, 0] == 1
    assert 0.8 < weights[0, 1] < 1


A, LOGPS = row(1, 1, -1, -1), row(-0.1, -3, -0.2, -4)
"""Means 0 and -1.825: covariances 1.725, -1.175, -1.625, 2.175."""


def clip_cov(given, *, share, low, high):
    return ClipCov(share=share, covariance_low=low, covariance_high=high).shape(given)


def test_clip_cov_leaves_out_its_share_of_the_candidates():
    left_out = set()
    for seed in range(20):
        found = clip_cov(update(A, LOGPS, seed=(seed,)), share=2e-4, low=1, high=5)
        (place,) = (found[0] == 0).nonzero().flatten().tolist()
        torch.testing.assert_close(found[0, 1:3], A[0, 1:3])
        left_out.add(place)
    assert left_out == {0, 3}
    # int(.5 x 4) = 2 of two candidates; none above 3; with high = 2 the last is none
    assert clip_cov(update(A, LOGPS), share=0.5, low=1, high=5).tolist() == [[0, 1, -1, 0]]
    assert clip_cov(update(A, LOGPS), share=0.5, low=3, high=5).tolist() == A.tolist()
    assert clip_cov(update(A, LOGPS), share=0.5, low=1, high=2).tolist() == [[0, 1, -1, -1]]
    # the first token's ratio is 1.5 and its advantage positive
    old = LOGPS - row(log(1.5), 0, 0, 0)
    found = clip_cov(update(A, LOGPS, old_logps_BT=old), share=0.5, low=1, high=5)
    assert found.tolist() == [[1, 1, -1, 0]]
    unclipped = update(A, LOGPS, old_logps_BT=old, clip=None)
    assert clip_cov(unclipped, share=0.5, low=1, high=5).tolist() == [[0, 1, -1, 0]]


def test_kl_cov_takes_the_greatest_covariances_and_nothing_on_policy():
    old, mask = LOGPS - 0.1, torch.tensor([[1, 1, 1, 0]])
    # ratio e^.1: A - .1 e^-.1 at int(.5 x 4) = 2 tokens; of three tokens at int(1.5) = 1
    held = 0.1 * exp(-0.1)
    found = KlCov(share=0.5).shape(update(A, LOGPS, old_logps_BT=old))
    torch.testing.assert_close(found, row(1 - held, 1, -1, -1 - held))
    found = KlCov(share=0.5).shape(update(A, LOGPS, old_logps_BT=old, mask_BT=mask))
    torch.testing.assert_close(found, row(1 - held, 1, -1, -1))
    logps = LOGPS.clone().requires_grad_()
    advantages = KlCov(share=0.5).shape(update(A, logps, clip=None))
    torch.testing.assert_close(advantages.detach(), A)
    (gradient,) = torch.autograd.grad(advantages.sum(), logps)
    assert (gradient == 0).all()
    given = update(row(0, 0), row(-1, -2), old_logps_BT=row(-2, -1), clip=None)
    assert KlCov(share=0.5).shape(given).tolist() == [[0, 0]]
