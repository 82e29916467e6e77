"""The divergence from the anchor: each estimator's gradient in expectation, its rows, its schedule.

Three tokens, three steps: 27 completions, 13 states. The policy, the reference and q are tables;
the expectation over completions is a finite sum, compared with the exact gradient by autograd.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from enumeration import k3_corrected
from torch import Tensor

from sage_cli.guides import BranchGuide, Signals
from sage_cli.guides.divergences import (
    anchored_rows,
    equal_rows,
    forward_cross_entropy,
    k3,
    log_ratio,
    reward_to_go,
    share_of_beta,
    uncertain_tokens,
)

VOCABULARY, STEPS = 3, 3
COMPLETIONS_BT = torch.tensor(list(product(range(VOCABULARY), repeat=STEPS)))
PREFIXES = [
    prefix for length in range(STEPS) for prefix in product(range(VOCABULARY), repeat=length)
]
STATES_BT = torch.tensor(
    [[PREFIXES.index(tuple(row[:t])) for t in range(STEPS)] for row in COMPLETIONS_BT.tolist()]
)
ONES_BT = torch.ones(STATES_BT.shape, dtype=torch.float64)


class Tables:
    """Logits of policy and reference, and two guides: of the state alone, and of the token."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        shape = (len(PREFIXES), VOCABULARY)
        draw = lambda: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
        self.logits_ZV = (1.5 * draw()).requires_grad_()
        self.reference_ZV = draw().log_softmax(dim=1)
        entropy_S = torch.distributions.Categorical(logits=self.logits_ZV.detach()).entropy()
        branch = BranchGuide(tau=0.5, rho=0.8)
        everywhere = torch.ones(1, len(PREFIXES))
        signals = Signals(entropy_S[None], entropy_S[None], everywhere)
        state_S = branch.log_q(signals, step=0)[0]
        assert 3 < (state_S > 0).sum() < len(PREFIXES)
        token_ZV = (0.3 * draw()).clamp(-0.5, 0.33)
        self.log_q_ZV = {
            "none": torch.zeros(shape, dtype=torch.float64),
            "branch": state_S[:, None].expand(shape),
            "token": token_ZV,
        }

    @property
    def logps_ZV(self) -> Tensor:  # noqa: N802
        return self.logits_ZV.log_softmax(dim=1)

    def visits_S(self) -> Tensor:  # noqa: N802
        """Probability that a completion passes each state."""
        probability_B = at(self.logps_ZV).sum(dim=1).exp().detach()
        visits_S = torch.zeros(len(PREFIXES), dtype=torch.float64)
        return visits_S.index_add(0, STATES_BT.flatten(), probability_B.repeat_interleave(STEPS))


def at(table_ZV: Tensor) -> Tensor:
    """A table's values along all completions."""
    return table_ZV[STATES_BT, COMPLETIONS_BT]


def gradient(of: Tensor, tables: Tables) -> Tensor:
    (found,) = torch.autograd.grad(of, tables.logits_ZV, retain_graph=True)
    return found


def expected_gradient(tables: Tables, loss_BT: Tensor) -> Tensor:
    """The expectation over y ~ pi of the gradient of a per-token loss, summed over tokens."""
    probability_B = at(tables.logps_ZV).sum(dim=1).exp().detach()
    return gradient((probability_B * loss_BT.sum(dim=1)).sum(), tables)


def estimated(tables: Tables, estimator: str, guide: str) -> Tensor:
    logps_BT, reference_BT = at(tables.logps_ZV), at(tables.reference_ZV)
    log_q_BT = at(tables.log_q_ZV[guide])
    if estimator == "k3":
        loss_BT = k3(logps_BT, reference_BT, log_q_BT)
    elif estimator == "k3-corrected":
        loss_BT = k3_corrected(logps_BT, reference_BT, logps_BT.detach(), log_q_BT)
    else:
        ratio_BT = log_ratio(logps_BT, reference_BT, log_q_BT)
        loss_BT = -reward_to_go(ratio_BT, ONES_BT, beta=1.0) * logps_BT
    return expected_gradient(tables, loss_BT)


def close(first: Tensor, second: Tensor) -> bool:
    return bool((first - second).abs().max() < 1e-12)


@pytest.mark.parametrize("guide", ["none", "branch", "token"])
def test_k3_is_the_forward_kl_with_the_reference_weighted_by_q(guide: str):
    tables = Tables()
    weight_ZV = (tables.reference_ZV + tables.log_q_ZV[guide]).exp()
    exact = -(tables.visits_S() * (weight_ZV * tables.logps_ZV).sum(dim=1)).sum()
    # the k3's own -d term contributes the gradient of log pi, whose expectation is zero
    assert close(estimated(tables, "k3", guide), gradient(exact, tables))


def test_k3_under_branch_pulls_q_times_as_hard_at_each_state():
    tables = Tables()
    kl_S = (tables.reference_ZV.exp() * (tables.reference_ZV - tables.logps_ZV)).sum(dim=1)
    q_S = tables.log_q_ZV["branch"][:, 0].exp()
    exact = gradient((tables.visits_S() * q_S * kl_S).sum(), tables)
    assert close(estimated(tables, "k3", "branch"), exact)
    assert not close(exact, estimated(tables, "k3", "none"))


@pytest.mark.parametrize("guide", ["none", "branch", "token"])
def test_k3_corrected_is_the_exact_reverse_kl_at_each_state(guide: str):
    tables = Tables()
    shaped_ZV = tables.logps_ZV - tables.log_q_ZV[guide] - tables.reference_ZV
    reverse_S = (tables.logps_ZV.exp() * shaped_ZV).sum(dim=1)
    exact = gradient((tables.visits_S() * reverse_S).sum(), tables)
    assert close(estimated(tables, "k3-corrected", guide), exact)


def test_branch_drops_out_under_k3_corrected_and_token_does_not():
    tables = Tables()
    plain = estimated(tables, "k3-corrected", "none")
    assert close(estimated(tables, "k3-corrected", "branch"), plain)
    assert not close(estimated(tables, "k3-corrected", "token"), plain)


@pytest.mark.parametrize("guide", ["none", "branch", "token"])
def test_reward_is_the_exact_gradient_of_equation_6(guide: str):
    tables = Tables()
    logps_B = at(tables.logps_ZV).sum(dim=1)
    anchor_B = at(tables.reference_ZV + tables.log_q_ZV[guide]).sum(dim=1)
    pseudo_kl = (logps_B.exp() * (logps_B - anchor_B)).sum()  # Eq. 5, with q fixed
    assert close(estimated(tables, "reward", guide), gradient(pseudo_kl, tables))


def test_branch_does_not_drop_out_under_reward():
    tables = Tables()
    assert not close(estimated(tables, "reward", "branch"), estimated(tables, "reward", "none"))


def test_the_three_estimators_are_three_methods():
    tables = Tables()
    found = [estimated(tables, name, "branch") for name in ("k3", "k3-corrected", "reward")]
    assert not close(found[0], found[1])
    assert not close(found[1], found[2])
    assert not close(found[0], found[2])


def test_half_the_squared_log_ratio_has_k3_correcteds_gradient_sample_by_sample():
    tables = Tables()
    logps_BT, anchor_BT = at(tables.logps_ZV).detach().requires_grad_(), at(tables.reference_ZV)
    k2 = (0.5 * (anchor_BT - logps_BT) ** 2).sum()
    corrected = k3_corrected(logps_BT, anchor_BT, logps_BT.detach()).sum()
    first, second = (torch.autograd.grad(loss, logps_BT)[0] for loss in (k2, corrected))
    assert close(first, second)


def test_cross_entropy_on_the_references_completions_is_the_forward_kl():
    tables = Tables()
    logps_BT = at(tables.logps_ZV)
    reference_B = at(tables.reference_ZV).sum(dim=1)
    estimate = sum(
        probability * forward_cross_entropy(logps_BT[i : i + 1], ONES_BT[i : i + 1])
        for i, probability in enumerate(reference_B.exp())
    )
    exact = (reference_B.exp() * (reference_B - logps_BT.sum(dim=1))).sum() / STEPS
    assert close(gradient(estimate, tables), gradient(exact, tables))


RIGHT_B = torch.tensor([1, 0, 0, 0, 1, 1, 1, 1]).bool()
GROUP_RIGHT_B = torch.tensor([0.25] * 4 + [1.0] * 4)
"""Two groups of four, r = [1, 0, 0, 0] and [1, 1, 1, 1]."""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("all", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("wrong", [0, 1, 1, 1, 0, 0, 0, 0]),
        ("right", [1, 0, 0, 0, 1, 1, 1, 1]),
        ("informative", [1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_which_rows_are_held(rows: Any, expected: list[int]) -> None:
    assert anchored_rows(rows, RIGHT_B, GROUP_RIGHT_B).int().tolist() == expected


@pytest.mark.parametrize(
    ("entropies", "share", "uncertain"),
    [
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
    ],
)
def test_which_tokens_are_uncertain(
    entropies: list[float], share: float, uncertain: list[int]
) -> None:
    """Whatever stands behind the completion, which has more entropy than all of it."""
    length = len(entropies)
    for padding in (int(not length), 2, 5):
        entropy_BT = torch.tensor([[*entropies, *[9.0] * padding], [3.0] * (length + padding)])
        mask_BT = torch.tensor([[1] * length + [0] * padding, [1] * (length + padding)])
        found_BT = uncertain_tokens(entropy_BT, mask_BT, share)
        assert found_BT[0].int().tolist() == uncertain + [0] * padding
        assert not found_BT[1].any()


def test_a_group_without_a_right_answer_is_equal_too() -> None:
    assert equal_rows(torch.tensor([0.0, 0.125, 1.0])).tolist() == [True, False, True]


def test_the_cosine_by_hand():
    # t / T = 0, .25, .5, 1: (1 + cos) / 2 = 1, (1 + .70711) / 2, .5, 0
    found = [1e-3 * share_of_beta("cosine", step, 8) for step in (0, 2, 4, 8)]
    assert found == pytest.approx([1e-3, 8.536e-4, 5e-4, 0], abs=1e-7)


def test_a_constant_beta_is_all_there_throughout():
    assert {share_of_beta("constant", step, 8) for step in range(9)} == {1.0}
