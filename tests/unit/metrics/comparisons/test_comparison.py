from __future__ import annotations

import numpy as np

from sage_cli.metrics import Counts, Side, compare_sides, curve_ks, find_crossing


def counts(c_P: np.ndarray, n: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), c_P)


def few_for_many(problems: int, n: int) -> tuple[Counts, Counts]:
    """Trained: half of the problems good, the others lost; base: all of them seldom right."""
    generator = np.random.default_rng(8)
    lost_P = generator.random(problems) < 0.5
    trained_P = np.where(lost_P, 0.0, generator.beta(20, 5, problems))
    base_P = generator.beta(4, 16, problems)
    return counts(generator.binomial(n, trained_P), n), counts(generator.binomial(n, base_P), n)


def test_which_ks_are_shown_changes_neither_curves_nor_the_crossing() -> None:
    a, b = few_for_many(200, 64)
    found = compare_sides(Side("a", ([a],)), Side("b", ([b],)), (1, 64))
    every = curve_ks(64)
    assert found.shown == (1, 64)
    assert found.curves[0].ks == found.curves[1].ks == found.difference.ks == every
    assert found.crossing == find_crossing(a, b, every)
    # a straight line from k = 1 to 64 meets the other elsewhere
    assert found.crossing.established
    assert 2 < found.crossing.k < 4  # 1/2 = 1 - .8^3.1
    assert find_crossing(a, b, (1, 64)).k < found.crossing.k - 0.2
