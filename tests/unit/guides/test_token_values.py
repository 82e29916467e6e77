"""Values of completions' tokens under a guide, by hand."""

import math

import pytest
import torch

from sage_cli.errors import TrainingError
from sage_cli.guides import BranchGuide, NoGuide, RandomGuide, TokenGuide
from sage_cli.guides.guide import OPTIONAL_SIGNALS, ROW_SIGNALS, Guide
from sage_cli.guides.token_values import token_values

FIRST = (torch.tensor([-0.5, -2.0, -1.0]), torch.tensor([0.4, 1.6, 3.0]))
SECOND = (torch.tensor([-0.25]), torch.tensor([1.2]))
BRANCH = BranchGuide(tau=0.6, rho=0.3)


def test_branch_by_hand():
    rows, summary = token_values([FIRST, SECOND], BRANCH, step=0)
    # q = 1 + 0.3 max(0, H - 0.6): 1; 1 + 0.3 x 1.0 = 1.3; 1 + 0.3 x 2.4 = 1.72, clamped to 1.4
    first, second = rows
    assert first.q_T == pytest.approx([1.0, 1.3, 1.4], abs=1e-6)
    assert first.clamped_T == (False, False, True)
    assert first.surprisal_T == pytest.approx([0.5, 2.0, 1.0], abs=1e-7)
    assert first.entropy_T == pytest.approx([0.4, 1.6, 3.0], abs=1e-6)
    assert first.summary["shaped"] == pytest.approx(2 / 3, abs=1e-12)
    assert first.summary["clamped"] == pytest.approx(1 / 3, abs=1e-12)
    assert first.summary["log_q"] == pytest.approx((math.log(1.3) + math.log(1.4)) / 3, abs=1e-6)
    # of three values the 75th percentile lies half way between the second and the third
    assert first.summary["entropy_p50"] == pytest.approx(1.6, abs=1e-6)
    assert first.summary["entropy_p75"] == pytest.approx(2.3, abs=1e-6)
    # 1 + 0.3 x 0.6 = 1.18; a row of one token isn't touched by the padding of the other
    assert second.q_T == pytest.approx([1.18], abs=1e-6)
    assert second.summary["shaped"] == 1.0
    # the whole is weighted by tokens
    assert summary["shaped"] == pytest.approx(3 / 4, abs=1e-12)
    assert summary["clamped"] == pytest.approx(1 / 4, abs=1e-12)
    total = math.log(1.3) + math.log(1.4) + math.log(1.18)
    assert summary["log_q"] == pytest.approx(total / 4, abs=1e-6)
    assert (summary["q_min"], summary["q_max"]) == pytest.approx((1.0, 1.4), abs=1e-6)
    # 0.4, 1.2, 1.6, 3.0: the median is 1.4
    assert summary["entropy_p50"] == pytest.approx(1.4, abs=1e-6)


def test_without_a_guide_or_at_1_nothing_is_shaped():
    rows, summary = token_values([FIRST, SECOND], NoGuide(), step=0)
    assert [row.q_T for row in rows] == [(1.0, 1.0, 1.0), (1.0,)]
    assert (summary["shaped"], summary["log_q"]) == (0.0, 0.0)
    (seen,), _ = token_values([FIRST], Alternating(), step=3)
    assert seen.q_T == pytest.approx([0.5, 1.0, 2.0], abs=1e-6)
    assert seen.clamped_T == (True, False, True)
    assert token_values([FIRST], Alternating(), step=0)[0][0].q_T[2] == 1.0
    held = BranchGuide(tau=0.6, rho=0.3, q_min=0.6, q_max=1.0)
    rows, summary = token_values([FIRST], held, step=0)
    assert rows[0].clamped_T == (False, False, False)
    assert summary["clamped"] == 0.0


def test_a_guide_gets_ids_signals_grades_and_problems():
    reference = [(FIRST[0] - 1, FIRST[1] * 0), (SECOND[0], SECOND[1] + 1)]
    rows, _ = token_values(
        [FIRST, SECOND], BranchGuide(tau=0.6, rho=0.3, signal="reference"), 0, reference
    )
    # the reference's entropies 0, 0, 0 and 2.2: q = 1, 1, 1 and 1 + 0.3 x 1.6 = 1.48, clamped
    assert rows[0].q_T == pytest.approx([1.0, 1.0, 1.0])
    assert rows[1].q_T == pytest.approx([1.4])
    assert rows[1].entropy_T == pytest.approx([1.2])
    assert rows[0].surprisal_T == pytest.approx([0.5, 2.0, 1.0])
    reference = [(FIRST[0] - 1, FIRST[1] * 0), (SECOND[0], SECOND[1] + 1)]
    rows, _ = token_values([FIRST, SECOND], Everything(), 0, reference, [[3, 0, 2], [1]])
    # 1 + .4 + 1 + 3, 1 + 1.6 + 1 + 0, 1 + 3 + 1 + 2 | 1 - 1 + 0 + 1
    assert rows[0].q_T == pytest.approx([5.4, 3.6, 7.0], abs=1e-5)
    assert rows[1].q_T == pytest.approx([1.0], abs=1e-6)
    with pytest.raises(TrainingError, match=r"Everything .* needs reference_entropy_BT, refer"):
        token_values([FIRST], Everything(), 0, token_ids=[[3, 0, 2]])
    with pytest.raises(TrainingError, match="there is no reference"):
        token_values([FIRST], BranchGuide(signal="reference"), 0)
    known = {"right_B": torch.tensor([True, False]), "problem_ids_B": ("a", "a")}
    rows, _ = token_values([FIRST, SECOND], Grading(), 0, others=known)
    assert [row.q_T for row in rows] == [(2.0, 2.0, 2.0), (1.0,)]
    said = r"Rewarding .* needs group_right_B, rewards_B, which is not available here"
    with pytest.raises(TrainingError, match=said) as refused:
        token_values([FIRST, SECOND], Rewarding(), 0, others=known)
    assert "rewards and groups are known in training alone" in refused.value.next_step


TILTED = {"reference_tilted_logps_BT"}


class Everything(Guide):
    """Reads all that may be asked for of a completion's tokens."""

    needs = frozenset(OPTIONAL_SIGNALS) - set(ROW_SIGNALS) - TILTED
    q_min: float = 0.1
    q_max: float = 9.0

    def q(self, signals, step):
        difference_BT = signals.policy_entropy_BT - signals.reference_entropy_BT
        apart_BT = (signals.policy_logps_BT - signals.reference_logps_BT).abs()
        return 1 + difference_BT + apart_BT + signals.token_ids_BT


class Grading(Guide):
    """Twice the anchor on right completions of problem a; asks for more with `needs`."""

    needs = frozenset({"right_B", "problem_ids_B"})
    q_max: float = 2.0

    def q(self, signals, step):
        of_a_B = torch.tensor([id_ == "a" for id_ in signals.problem_ids_B])
        return 1 + signals.logps_BT * 0 + (signals.right_B & of_a_B)[:, None]


class Rewarding(Grading):
    needs = frozenset({"rewards_B", "group_right_B"})


class Alternating(Guide):
    """Above, at and below 1 in turn; remembers nothing, depends on the step."""

    q_min: float = 0.5
    q_max: float = 2.0

    def q(self, signals, step):
        return signals.logps_BT * 0 + torch.tensor([0.1, 1.0, 1.0 + step])


@pytest.mark.parametrize("guide", [TokenGuide(), RandomGuide(epsilon=(1.0, 1.0))])
def test_noise_is_that_of_the_step_and_the_row(guide):
    rows, summary = token_values([FIRST, SECOND, FIRST], guide, step=5)
    assert token_values([FIRST, SECOND, FIRST], guide, step=5) == (rows, summary)
    assert token_values([FIRST, SECOND, FIRST], guide, step=6)[0][0].q_T != rows[0].q_T
    assert rows[0].q_T != rows[2].q_T
    assert token_values([FIRST], guide, step=5)[0][0].q_T == rows[0].q_T
