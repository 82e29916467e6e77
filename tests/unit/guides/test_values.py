"""Values of q by hand, and against values that another implementation found."""

import json
from hashlib import blake2b

import pytest
import torch

from sage_cli.guides import BranchGuide, RandomGuide, ShuffledGuide, Signals, TokenGuide
from sage_cli.guides.guide import cosine_cycles, to_normal


def signals(logps, entropies, mask):
    return Signals(torch.tensor(logps), torch.tensor(entropies), torch.tensor(mask))


@pytest.mark.parametrize(("norm", "w"), [("minmax", 0.0), ("rank", 0.0), ("zscore", 0.5)])
def test_token_on_a_single_token(norm, w):
    batch = signals([[-2.0, -1.0]], [[0.0, 0.0]], [[1, 0]])
    guide = TokenGuide(alpha=(0.3, 0.3), sigma=(0.0, 0.0), norm=norm)
    q_BT = guide.log_q(batch, step=0).exp()
    torch.testing.assert_close(q_BT, torch.tensor([[1 + 0.3 * w, 1.0]]))


def splitmix64(seed, number):
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
def test_the_ends_of_the_uniform_numbers_are_finite_normal_ones(dtype):
    # single precision rounds the numbers from 1 - 2^-25 on to 1; Phi(8.2095) = 1 - 2^-53
    normal = to_normal(torch.tensor([0.0, 1 - 2.0**-30, 1.0], dtype=torch.float64).to(dtype))
    assert normal.isfinite().all()
    assert normal[0] == pytest.approx(-8.2095, abs=1e-4)
    assert normal[2] == pytest.approx(8.2095, abs=1e-4)


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
