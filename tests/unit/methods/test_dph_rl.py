"""DPH-RL's divergences by hand, their gradients, and which problems are held."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from sage_cli.methods.initial_texts import divergence, held_completion

U = torch.tensor([0.25, 0.5, 1.0, 2.0], dtype=torch.float64)
KINDS: list[tuple[Any, list[float]]] = [
    # 1/4 - 1 + ln 4 = .636294; 1/2 - 1 + ln 2; 0; 2 - 1 - ln 2
    ("forward", [0.636294, 0.193147, 0, 0.306853]),
    # -ln 4 / 4 - 5/4 ln 5/8 = -.346574 + .587505; -ln 2 / 2 - 3/2 ln 3/4; 0; 2 ln 2 - 3 ln 3/2
    ("js", [0.240931, 0.084950, 0, 0.169899]),
    # (.25^.8 - .8 x .25 - .2) / -.16 = (.329877 - .4) / -.16; (.574349 - .6) / -.16; 0;
    # (1.741101 - 1.8) / -.16
    ("alpha", [0.438269, 0.160318, 0, 0.368118]),
]


def of(log_u: Tensor, kind: Any, limit: float = 50.0) -> Tensor:
    return divergence(log_u, kind, alpha=0.2, limit=limit)


@pytest.mark.parametrize(("kind", "expected"), KINDS)
def test_by_hand(kind: Any, expected: list[float]):
    assert of(U.log(), kind).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # KL(P | pi) = .6 ln 1.2 + .3 ln .75 = .109393 - .086305 (pi sums to 1, so u - 1 to 0)
        ("forward", 0.0230883),
        ("js", 0.0117191),
        ("alpha", 0.0237272),
    ],
)
def test_the_mean_over_the_initial_policy_is_the_divergence(kind: Any, expected: float):
    reference, policy = (
        torch.tensor(p, dtype=torch.float64) for p in ([0.6, 0.3, 0.1], [0.5, 0.4, 0.1])
    )
    found = (reference * of((policy / reference).log(), kind)).sum().item()
    assert found == pytest.approx(expected, abs=1e-7)
    middle = (policy + reference) / 2
    if kind == "js":
        both = sum((p * (p / middle).log()).sum() for p in (policy, reference))
        assert found == pytest.approx(float(both), abs=1e-12)


@pytest.mark.parametrize("kind", ["forward", "js", "alpha"])
def test_its_gradient_is_zero_at_one_and_that_of_the_formula_elsewhere(kind: Any):
    log_u = U.log().requires_grad_()
    (found,) = torch.autograd.grad(of(log_u, kind).sum(), log_u)
    # u f'(u): u - 1; u ln(2u / (u + 1)); u ((1 - a) u^-a - (1 - a)) / (a (a - 1)) = 5 (u - u^.8)
    expected = {"forward": U - 1, "js": U * (2 * U / (U + 1)).log(), "alpha": 5 * (U - U**0.8)}
    torch.testing.assert_close(found, expected[kind], atol=1e-12, rtol=1e-12)
    assert found[2] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("kind", ["forward", "js", "alpha"])
def test_near_one_single_precision_keeps_its_digits(kind: Any):
    # all are c d^2 / 2 at d = log u near 0, c = f''(1): 1, 1/2, 1
    c = 0.5 if kind == "js" else 1.0
    found = of(torch.tensor([1e-2, -1e-2]), kind)
    assert found.tolist() == pytest.approx([c * 5e-5] * 2, rel=1e-2)


@pytest.mark.parametrize("kind", ["forward", "js", "alpha"])
def test_above_the_limit_it_goes_on_with_the_slope_it_has_there(kind: Any):
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
