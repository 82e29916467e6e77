"""Values of q by hand, and against values that another implementation found."""

import json
import math
from hashlib import blake2b

import pytest
import torch

from sage_cli.guides import BranchGuide, RandomGuide, ShuffledGuide, Signals, TokenGuide
from sage_cli.guides.annealed import cosine_cycles, to_normal


def signals(logps: list[list[float]], entropies: list[list[float]], mask: list[list[int]]):
    return Signals(torch.tensor(logps), torch.tensor(entropies), torch.tensor(mask))


def test_branch_by_hand():
    # 1 + .3 max(0, H - 1.2): H = 1.0 -> 1; 2.2 -> 1.3; 4.2 -> 1.9, clamped to 1.4; masked -> 1
    batch = signals([[-1.0] * 4], [[1.0, 2.2, 4.2, 9.0]], [[1, 1, 1, 0]])
    q_BT = BranchGuide(tau=1.2, rho=0.3, q_min=0.6, q_max=1.4).log_q(batch, step=0).exp()
    torch.testing.assert_close(q_BT, torch.tensor([[1.0, 1.3, 1.4, 1.0]]))


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        # surprisals 1, 2, 2, 4: ranks 0, 1.5, 1.5, 3 over n - 1 = 3; q = 1 + .3 w
        ("rank", [1.0, 1.15, 1.15, 1.3]),
        # 5 % and 95 % quantiles: 1 + .15 (2 - 1) = 1.15 and 2 + .85 (4 - 2) = 3.7;
        # (2 - 1.15) / 2.55 = 1/3
        ("minmax", [1.0, 1.1, 1.1, 1.3]),
        # mean 2.25, variance (1.5625 + 2 * .0625 + 3.0625) / 4 = 1.1875
        (
            "zscore",
            [1 + 0.3 / (1 + math.exp((2.25 - v) / math.sqrt(1.1875))) for v in (1, 2, 2, 4)],
        ),
    ],
)
def test_token_without_noise_by_hand(norm: str, expected: list[float]):
    batch = signals([[-1.0, -2.0, -2.0, -4.0, -9.0]], [[0.0] * 5], [[1, 1, 1, 1, 0]])
    guide = TokenGuide(alpha=(0.3, 0.3), sigma=(0.0, 0.0), norm=norm)
    q_BT = guide.log_q(batch, step=0).exp()
    torch.testing.assert_close(q_BT, torch.tensor([[*expected, 1.0]]))


@pytest.mark.parametrize(("norm", "w"), [("minmax", 0.0), ("rank", 0.0), ("zscore", 0.5)])
def test_token_on_a_single_token(norm: str, w: float):
    batch = signals([[-2.0, -1.0]], [[0.0, 0.0]], [[1, 0]])
    guide = TokenGuide(alpha=(0.3, 0.3), sigma=(0.0, 0.0), norm=norm)
    q_BT = guide.log_q(batch, step=0).exp()
    torch.testing.assert_close(q_BT, torch.tensor([[1 + 0.3 * w, 1.0]]))


def test_random_has_the_distribution_of_equation_9():
    ones = torch.ones(200, 500)
    guide = RandomGuide(epsilon=(0.1, 0.1), sigma=(0.15, 0.15), q_min=1e-3, q_max=10)
    q_BT = guide.log_q(Signals(-ones, ones, ones), step=3).exp().double()
    noisy = q_BT[q_BT != 1]
    # 100,000 tokens: the share's standard error is sqrt(.1 * .9 / 1e5) = .00095, that of the mean
    # of 10,000 draws .0015, that of their deviation .0011; five standard errors are allowed
    assert len(noisy) / q_BT.numel() == pytest.approx(0.1, abs=0.005)
    assert noisy.mean().item() == pytest.approx(1, abs=0.0075)
    assert noisy.std().item() == pytest.approx(0.15, abs=0.0055)


def test_token_noise_scales_with_surprisal():
    logps_BT = torch.tensor([[0.0, -1.0, -2.0]]).repeat(4000, 1)
    ones = torch.ones_like(logps_BT)
    guide = TokenGuide(alpha=(0.3, 0.3), sigma=(0.1, 0.1), norm="rank", q_min=1e-3, q_max=10)
    q_BT = guide.log_q(Signals(logps_BT, ones, ones), step=0).exp().double()
    # w = 0, 1/2, 1: mean 1 + .3 w, deviation .1 w; standard errors at most .0016 and .0011
    assert q_BT.mean(dim=0).tolist() == pytest.approx([1, 1.15, 1.3], abs=0.008)
    assert q_BT.std(dim=0).tolist() == pytest.approx([0, 0.05, 0.1], abs=0.0055)


def test_noise_changes_with_step_seed_and_row():
    ones = torch.ones(3, 40)
    batch = Signals(-ones, ones, ones)
    guide = RandomGuide(epsilon=(1.0, 1.0))
    drawn = [guide.log_q(batch, 0), guide.log_q(batch, 1)]
    drawn.append(RandomGuide(epsilon=(1.0, 1.0), seed=1).log_q(batch, 0))
    rows = torch.cat(drawn)
    assert len({tuple(row.tolist()) for row in rows}) == 9


def splitmix64(seed: int, number: int) -> int:
    """Fig. 17 of Steele, Lea and Flood (2014), in Python's unbounded integers."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) % 2**64
    return z ^ z >> 31


def test_noise_is_a_stream_of_the_key_for_each_row_and_part_of_identities():
    ones = torch.ones(2, 3)
    found_2BT = RandomGuide(seed=5).noise(
        Signals(ones.double(), ones, ones, torch.tensor([7, 1])), 9
    )
    key = int.from_bytes(blake2b(b"(5, 9)", digest_size=8).digest(), "little")
    for b, row in enumerate((7, 1)):
        stream = [splitmix64(splitmix64(key, row), i) // 2**11 / 2**53 for i in range(6)]
        assert found_2BT[:, b].T.flatten().tolist() == stream
    for guide in (RandomGuide(), TokenGuide(), ShuffledGuide()):
        assert guide.determinants()["noise"] == "splitmix64"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_ends_of_the_uniform_numbers_are_finite_normal_ones(dtype: torch.dtype):
    # single precision rounds the numbers from 1 - 2^-25 on to 1; Phi(8.2095) = 1 - 2^-53
    normal = to_normal(torch.tensor([0.0, 1 - 2.0**-30, 1.0], dtype=torch.float64).to(dtype))
    assert normal.isfinite().all()
    assert normal[0] == pytest.approx(-8.2095, abs=1e-4)
    assert normal[2] == pytest.approx(8.2095, abs=1e-4)


def test_schedule_by_hand():
    def value(step: int, *ends: float) -> float:
        return cosine_cycles(step, ends, max_steps=20, cycles=2, decay=0.5)

    # L = 10: halfway through a cycle cos = 0; the second cycle's top is .5 * 4 = 2;
    # step 25 is beyond the last cycle: the phase wraps, the decay stops
    assert value(0, 4, 0) == pytest.approx(4)
    assert value(5, 4, 0) == pytest.approx(2)
    assert value(10, 4, 1) == pytest.approx(2)
    assert value(25, 4, 1) == pytest.approx(1.5)


def test_schedule_of_fewer_steps_than_cycles_starts_a_cycle_each_step():
    assert cosine_cycles(2, (4, 0), max_steps=3, cycles=8, decay=0.5) == pytest.approx(1)


def test_golden_values(facts):
    golden = json.loads((facts / "golden_guides.json").read_text())
    for case in golden["cases"]:
        batch = signals(case["logps"], case["entropies"], case["mask"])
        clamp = {"q_min": case["q_min"], "q_max": case["q_max"]}
        branch = BranchGuide(tau=case["tau"], rho=case["rho"], **clamp).log_q(batch, 0).exp()
        torch.testing.assert_close(branch, torch.tensor(case["branch_q"]), atol=1e-6, rtol=0)
        for norm, expected in case["token_q_alpha_0_3_no_noise"].items():
            guide = TokenGuide(alpha=(0.3, 0.3), sigma=(0.0, 0.0), norm=norm, **clamp)
            token = guide.log_q(batch, 0).exp()
            torch.testing.assert_close(token, torch.tensor(expected), atol=1e-6, rtol=0)
    for schedule in golden["schedules"]:
        shape = schedule["max_steps"], schedule["cycles"], schedule["decay_rate"]
        ends = [(schedule[f"{what}_ub"], schedule[f"{what}_lb"]) for what in ("value", "sigma")]
        for step, *expected in schedule["step_value_sigma"]:
            assert [cosine_cycles(step, end, *shape) for end in ends] == pytest.approx(
                expected, abs=1e-8
            )


def test_a_clock_of_loss_calls_runs_through_the_cycles_faster():
    # 80 steps in 8 cycles are 10 steps a cycle; with 4 micro-batches step 2 begins at call 8 and
    # its third micro-batch is call 10, the top of the second cycle: .2 x .9
    ends = (0.2, 0.0)
    by_call = RandomGuide(sigma=ends, schedule_clock="loss_call").for_training(80)
    assert [by_call.now(2, call, 4) for call in range(4)] == [8, 9, 10, 11]
    assert by_call.annealed(by_call.now(2, 2, 4), ends) == pytest.approx(0.18)
    # beyond the eighth cycle, at call 80: the phase begins again and the decay has stopped
    assert by_call.annealed(by_call.now(20, 0, 4), ends) == pytest.approx(0.2 * 0.9**7)
    by_step = RandomGuide(sigma=ends).for_training(80)
    assert {by_step.now(2, call, 4) for call in range(4)} == {2}
    # phase 2/10: half of .2 (1 + cos(pi / 5)) = .2 x .9045
    assert by_step.annealed(2, ends) == pytest.approx(0.18090, abs=1e-5)
