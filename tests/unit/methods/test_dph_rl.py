"""DPH-RL's divergences near 1 and above the limit, and which problems are held."""

import math

import pytest
import torch

from sage_cli.methods.initial_texts import divergence, held_completion


def of(log_u, kind, limit=50.0):
    return divergence(log_u, kind, alpha=0.2, limit=limit)


@pytest.mark.parametrize("kind", ["forward", "js", "alpha"])
def test_near_one_single_precision_keeps_its_digits(kind):
    # all are c d^2 / 2 at d = log u near 0, c = f''(1): 1, 1/2, 1
    c = 0.5 if kind == "js" else 1.0
    found = of(torch.tensor([1e-2, -1e-2]), kind)
    assert found.tolist() == pytest.approx([c * 5e-5] * 2, rel=1e-2)


@pytest.mark.parametrize("kind", ["forward", "js", "alpha"])
def test_above_the_limit_it_goes_on_with_the_slope_it_has_there(kind):
    log_u = torch.tensor([1.0, 9.0, -9.0, 0.5], dtype=torch.float64, requires_grad=True)
    values = of(log_u, kind, limit=1.0)
    (slopes,) = torch.autograd.grad(values.sum(), log_u)
    at = torch.tensor([1.0, 1.0, -9.0, 0.5], dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(of(at, kind).sum(), at)
    torch.testing.assert_close(slopes, expected)
    # what is lost is pulled back, what is above pushed down
    assert slopes[2] < 0 < slopes[3]
    assert (values[1] - values[0]).item() == pytest.approx(8 * expected[0].item())
    far = torch.tensor(-60.0)  # u below the smallest step at 1 in single precision
    assert math.isfinite(of(far, kind).item())


def test_a_problem_is_held_by_its_first_right_completion():
    assert held_completion([True] * 4, 1.0) == 0
    assert held_completion([False, True, True, True], 1.0) is None
    assert held_completion([False, True, True, True], 0.75) == 1
    assert held_completion([False] * 4, 1e-9) is None
    # 11 / 20 is .55, and .55 x 20 a digit more than 11
    assert held_completion([False] * 9 + [True] * 11, 0.55) == 9
