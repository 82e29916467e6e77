from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts, compare_support


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
