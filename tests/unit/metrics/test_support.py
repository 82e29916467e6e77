from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts, compare_support
from sage_cli.metrics.support import transitions


def test_by_hand() -> None:
    ids = ("gained", "lost", "kept", "absent")
    base, run = Counts(ids, [4] * 4, [0, 1, 3, 0]), Counts(ids, [4] * 4, [4, 0, 4, 0])
    found = compare_support(base, run)
    assert (found.gained, found.lost) == (("gained",), ("lost",))
    assert (found.kept, found.absent) == (("kept",), ("absent",))
    # none of m right among 4 of 8: m = 4: 1/C(8,4) = 1/70; m = 1: 4/8; m = 7: impossible.
    assert found.gained_by_chance == pytest.approx(1 / 70 + 1 / 2, abs=1e-12)
    assert found.lost_by_chance == pytest.approx(1 / 70 + 1 / 2, abs=1e-12)
    # 1/70 = 0.014 is above 0.05 / 4 problems: not sure together, but sure at 10 %.
    assert found.surely_gained == ()
    assert compare_support(base, run, confidence=0.9).surely_gained == ("gained",)
    assert (1 - found.visible) ** 4 == pytest.approx(0.05, abs=1e-12)


def test_unequal_numbers_of_samples_by_hand() -> None:
    # 2 right among 4 + 12 samples: none of them among the base's 4: C(12,2)/C(16,2) = 66/120;
    # none among the run's 12: C(4,2)/C(16,2) = 6/120.
    found = compare_support(Counts(("a",), [4], [0]), Counts(("a",), [12], [2]))
    assert found.gained_by_chance == pytest.approx(66 / 120, abs=1e-14)
    assert found.lost_by_chance == pytest.approx(6 / 120, abs=1e-14)
    assert (1 - found.visible) ** 4 == pytest.approx(0.05, abs=1e-14)


def test_swapping_the_two_swaps_gained_and_lost() -> None:
    generator = np.random.default_rng(0)
    ids = tuple(map(str, range(50)))
    base = Counts(ids, [16] * 50, generator.binomial(16, generator.beta(0.3, 2, 50)))
    run = Counts(ids[::-1], [32] * 50, generator.binomial(32, generator.beta(0.3, 2, 50)))
    there, back = compare_support(base, run), compare_support(run, base)
    assert set(there.gained) == set(back.lost)
    assert there.gained_by_chance == pytest.approx(back.lost_by_chance, abs=1e-9)
    assert set(there.surely_lost) == set(back.surely_gained)
    parts = [*there.gained, *there.lost, *there.kept, *there.absent]
    assert sorted(parts) == sorted(ids)


@pytest.mark.slow
def test_without_a_change_chance_predicts_the_numbers_and_nothing_is_sure() -> None:
    generator = np.random.default_rng(3)
    gained = expected = sure = 0.0
    for _ in range(200):
        p_P = generator.beta(0.2, 3, 60)
        ids = tuple(map(str, range(60)))
        base, run = (Counts(ids, [32] * 60, generator.binomial(32, p_P)) for _ in range(2))
        found = compare_support(base, run)
        gained += len(found.gained)
        expected += found.gained_by_chance
        sure += bool(found.surely_gained)
    assert gained == pytest.approx(expected, rel=0.1)
    assert sure / 200 <= 0.05


def test_support_above_a_share_by_hand() -> None:
    # 1 of 4 then 3 of 4, above one half only then; of 4 right ones among 8 samples the base gets
    # i with chance C(4,i)^2 / 70 = 1, 16, 36, 16, 1 of 70; at most half, and the run more: i = 0, 1
    found = compare_support(Counts(("a",), [4], [1]), Counts(("a",), [4], [3]), delta=0.5)
    assert found.gained == ("a",)
    assert found.gained_by_chance == pytest.approx(17 / 70, abs=1e-12)
    assert found.lost_by_chance == pytest.approx(17 / 70, abs=1e-12)
    assert found.surely_gained == ()
    same = compare_support(Counts(("a",), [4], [2]), Counts(("a",), [4], [2]), delta=0.5)
    assert same.absent == ("a",)  # exactly one half isn't above it


def test_what_crosses_no_share_is_not_sure_however_much_it_moved() -> None:
    # 40 of 200 then 160 of 200: no doubt that it moved, but both are above 0.1
    base, run = Counts(("a",), [200], [40]), Counts(("a",), [200], [160])
    assert compare_support(base, run, delta=0.1).surely_gained == ()
    assert compare_support(base, run, delta=0.5).surely_gained == ("a",)


def test_transitions_by_hand() -> None:
    # 0 of 2 then 1 of 2: never -> often (half is often). One right of 4: the base gets it with 1/2.
    moved = transitions(Counts(("a",), [2], [0]), Counts(("a",), [2], [1]))
    assert moved.seen.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    expected = np.array([[0, 0, 0.5], [0, 0, 0], [0.5, 0, 0]])
    assert moved.by_chance == pytest.approx(expected, abs=1e-12)
    ids = ("never", "sometimes", "often")
    there = transitions(Counts(ids, [4] * 3, [0, 1, 2]), Counts(ids, [4] * 3, [0, 1, 4]))
    assert there.seen.tolist() == np.eye(3).tolist()
    assert there.by_chance.sum() == pytest.approx(3.0)
