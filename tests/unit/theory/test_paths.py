"""Steps by hand, rows against enumerated groups, and the path that was found elsewhere."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import pytest
import torch

from sage_cli.objectives import anchored_rows
from sage_cli.theory.paths import (
    GROUP,
    RARE,
    REFERENCE_B,
    RIGHT_B,
    Ascent,
    Way,
    informative_mass,
    optimum,
    paths,
    push,
    walk,
)


def test_a_first_step_by_hand():
    # at the reference a = r and the mean is .305: .3 (.695), .005 (.695), -.3 (.305), -.395 (.305)
    assert push(Way(), np.log(REFERENCE_B)) == pytest.approx(
        [0.2085, 0.003475, -0.0915, -0.120475], abs=1e-12
    )
    # weights .3 e^.2085 = .369549, .005 e^.003475 = .005017, .3 e^-.0915 = .273768,
    # .395 e^-.120475 = .350167; sum .998501
    assert walk(Way(), (1,))[0, RARE] == pytest.approx(0.005017405 / 0.998501, abs=1e-7)


def test_the_anchor_pulls_back_by_the_log_ratio():
    # halves against (.3, .005, .3, .395), beta .2: a_i = r_i - .2 log(.25 / P_i):
    # 1 + .2 log 1.2 = 1.036464, 1 - .2 log 50 = .217595, .036464, .2 log 1.58 = .091485;
    # mean .345502; pushes are a quarter of the differences
    found = push(Way(beta=0.2), np.zeros(4))
    assert found == pytest.approx([0.172741, -0.031977, -0.077260, -0.063504], abs=1e-6)
    # q = 4 adds .2 log 4 = .277259 to the rare answer's, and a quarter of it to the mean
    more = push(Way(beta=0.2, q=4.0), np.zeros(4)) - found
    assert more == pytest.approx(np.array([-1, 3, -1, -1]) * 0.277259 / 16, abs=1e-6)


@pytest.mark.slow
def test_the_path_of_the_rare_right_answer():
    """Values of an ascent written elsewhere: .0013, .0004, 1.2e-5, where Eq. 2 has .0164."""
    found = walk(Way(), (20, 100, 200_000))[:, RARE]
    assert found == pytest.approx([0.0013, 0.0004, 1.2e-5], rel=0.08)
    # .005 / (.305 + .695 e^-25) = .016393
    assert optimum(Way()) == pytest.approx(0.016393, abs=1e-6)


@pytest.mark.parametrize("rows", ["all", "wrong", "right", "informative"])
def test_rows_are_those_of_training_in_the_mean_over_groups(rows):
    policy_B = np.array([0.4, 0.2, 0.1, 0.3])
    chance, expected = 0.6, []
    for right in (True, False):
        held = 0.0
        for others in range(GROUP):
            share = (others + right) / GROUP
            weight = comb(GROUP - 1, others) * chance**others * (1 - chance) ** (GROUP - 1 - others)
            kept = anchored_rows(rows, torch.tensor([right]), torch.tensor([share]))
            held += weight * float(kept[0])
        expected.append(held)
    found_B = Ascent.of((Way(rows=rows),)).held(policy_B[None])[0]
    assert found_B == pytest.approx(np.where(RIGHT_B > 0, *expected), abs=1e-12)


def test_a_reference_that_moves():
    """Two steps by hand: after the first the reference is the policy, so it pulls nowhere."""
    still, reset = (walk(Way(beta=0.2, keep=keep), (1, 2)) for keep in (1.0, 0.0))
    assert reset[0] == pytest.approx(still[0], abs=0)
    gain_B = RIGHT_B - reset[0] @ RIGHT_B  # a = r: at the reference
    weight_B = reset[0] * np.exp(reset[0] * gain_B)
    assert reset[1] == pytest.approx(weight_B / weight_B.sum(), abs=1e-14)
    # keep = .5: half of the log-ratio is left
    half = walk(Way(beta=0.2, keep=0.5), (1, 2))[1]
    ratio_B = np.log(still[0] / REFERENCE_B)
    worth_B = RIGHT_B - 0.2 * 0.5 * ratio_B
    weight_B = still[0] * np.exp(still[0] * (worth_B - still[0] @ worth_B))
    assert half == pytest.approx(weight_B / weight_B.sum(), abs=1e-14)


def test_a_reference_moves_at_its_period_alone():
    plain, late = (walk(Way(beta=0.2, keep=keep, every=3), (3, 4)) for keep in (1.0, 0.0))
    assert late[0] == pytest.approx(plain[0], abs=0)
    assert np.abs(late[1] - plain[1]).max() > 1e-4


def test_ways_side_by_side_are_the_ways_alone():
    ways = (Way(), Way(rows="informative"), Way(keep=0.9, every=2), Way(mara=True), Way(q=3.0))
    together = Ascent.of(ways).walk((1, 7))
    for turn, way in enumerate(ways):
        assert together[:, turn] == pytest.approx(walk(way, (1, 7)), abs=1e-15)


def test_k3s_pull_by_hand():
    # halves: pushes without an anchor are (r - .5) / 4 = .125, .125, -.125, -.125; the pull adds
    # .2 (P - .25 sum P) = .2 (.05, -.245, .05, .145)
    found = push(Way(beta=0.2, covers=True), np.zeros(4))
    assert found == pytest.approx([0.135, 0.076, -0.115, -0.096], abs=1e-12)
    # q = 3: qP is .015 and the sum 1.01: each pull is .2 (.25 * .01) lower, and .002 higher there
    more = push(Way(beta=0.2, q=3.0, covers=True), np.zeros(4)) - found
    assert more == pytest.approx(np.array([-0.0005, 0.0015, -0.0005, -0.0005]), abs=1e-12)


def test_where_ways_end():
    # lambda: .2 * .305 / (x - 1) + .2 * .695 / x = 1 -> x = .6 + sqrt(.36 - .2 * .695) = 1.070106
    # .2 * .005 / .070106
    assert optimum(Way(beta=0.2, covers=True)) == pytest.approx(0.014264, abs=1e-5)
    assert optimum(Way(beta=0.0)) is None
    assert optimum(Way(keep=0.9)) is None
    assert optimum(Way(rows="wrong")) is None
    assert optimum(Way(rows="right")) == pytest.approx(0.005 / 0.305, abs=1e-15)
    # weights .3, .005 q = .05, wrong .695 e^-5 = .0046829: .05 / .3546829
    assert optimum(Way(beta=0.2, q=10.0)) == pytest.approx(0.1409710, abs=1e-6)
    # mara: .3 and .3, wrong .695 e^-5: .3 / .6046829
    assert optimum(Way(beta=0.2, mara=True)) == pytest.approx(0.496128, abs=1e-6)
    # the natural way has arrived there
    assert walk(Way(beta=0.2, q=10.0, natural=True), (200,))[0, RARE] == pytest.approx(
        0.1409710, abs=1e-6
    )


def test_where_informative_rows_end():
    # m the right mass: (1 - m^7) log(m / .305) - (1 - (1 - m)^7) log((1 - m) / .695) = 1 / beta
    m = informative_mass(0.5)
    held = (1 - m**7) * log(m / 0.305) - (1 - (1 - m) ** 7) * log((1 - m) / 0.695)
    assert held == pytest.approx(2.0, abs=1e-12)
    # informative rows hold less than all do: .305 e^2 / (.305 e^2 + .695) = .764305
    assert m > 0.305 * exp(2) / (0.305 * exp(2) + 0.695)


def test_what_the_report_gets():
    found = paths()
    assert found["shown"] == [20, 100, 1_000, 10_000]
    assert set(found["shown"]) <= set(found["step"])
    assert all(len(one["mass"]) == len(found["step"]) for one in found["path"])
    by_name = {(one["panel"], one["name"], one["beta"]): one for one in found["path"]}
    at_100 = found["step"].index(100)
    held = by_name["rows and references", "rows all", 0.2]
    assert held["mass"][at_100] == pytest.approx(walk(Way(beta=0.2), (100,))[0, RARE], abs=1e-15)
    assert len(by_name) == len(found["path"])
