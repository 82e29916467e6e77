""""""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from sage_cli.metrics import Counts, compare_support, pooled
from sage_cli.metrics.counts import SampleGrades
from sage_cli.metrics.support import different_seeds, grade_correlation, paired_grades


def graded_rows(*rows, seed=0, ids="abcdefgh"):
    """A problem per row, as `0110`: samples 1 and 2 are right."""
    right_PN = np.array([[sample == "1" for sample in row] for row in rows])
    n_P = np.full(len(rows), right_PN.shape[1])
    return Counts(
        tuple(ids[: len(rows)]), n_P, right_PN.sum(axis=1), SampleGrades((seed,), right_PN)
    )


def test_grades_are_pooled_by_seed_and_paired_where_samples_are_the_same():
    both = pooled([graded_rows("01", "11"), graded_rows("10", "00", seed=1)])
    assert both.grades is not None
    assert both.grades.seeds == (0, 1)
    assert both.grades.right_PN.astype(int).tolist() == [[0, 1, 1, 0], [1, 1, 0, 0]]
    turned = both.ordered(("b", "a"))
    assert turned.grades is not None
    assert turned.grades.right_PN.astype(int).tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    assert pooled([graded_rows("01"), Counts(("a",), [2], [1])]).grades is None
    one = graded_rows("0110")
    pairs = paired_grades(one, graded_rows("0100"))
    assert pairs is not None
    assert [pair.astype(int).tolist() for pair in pairs] == [[[0, 1, 1, 0]], [[0, 1, 0, 0]]]
    for other in (graded_rows("0100", seed=1), graded_rows("01"), Counts(("a",), [4], [1])):
        assert paired_grades(one, other) is None
        assert np.isnan(grade_correlation(one, other))
    assert different_seeds(one, graded_rows("0100", seed=1))
    assert not different_seeds(one, graded_rows("01"))
    assert not different_seeds(one, Counts(("a",), [4], [1]))


def test_the_correlation_by_hand():
    # a: 1/2 and 1/4 right, b: 1/2 and 1/2; together right 1/2 and 1/4: covariances 1/2 - 1/4 = 1/4
    # and 1/4 - 1/8 = 1/8; deviations 1/2 x 1/2 and sqrt(3)/4 x 1/2. The third never varies.
    a, b = graded_rows("0011", "0001", "1111"), graded_rows("0011", "0011", "0110")
    expected = (1 / 4 + 1 / 8) / (1 / 4 + 3**0.5 / 8)
    assert grade_correlation(a, b) == pytest.approx(expected, rel=1e-12)
    assert grade_correlation(a, a) == pytest.approx(1, rel=1e-12)
    turned = b.ordered(("c", "a", "b"))
    assert grade_correlation(a, turned) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(grade_correlation(graded_rows("0000"), graded_rows("0101")))


def graded(right_PN, seed=0):
    """Counts with the grades that they are of."""
    problems, n = right_PN.shape
    ids = tuple(map(str, range(problems)))
    return Counts(ids, np.full(problems, n), right_PN.sum(axis=1), SampleGrades((seed,), right_PN))


def test_support_by_hand():
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
    # 2 right among 4 + 12 samples: none of them among the base's 4: C(12,2)/C(16,2) = 66/120;
    # none among the run's 12: C(4,2)/C(16,2) = 6/120.
    found = compare_support(Counts(("a",), [4], [0]), Counts(("a",), [12], [2]))
    assert found.gained_by_chance == pytest.approx(66 / 120, abs=1e-14)
    assert found.lost_by_chance == pytest.approx(6 / 120, abs=1e-14)
    assert (1 - found.visible) ** 4 == pytest.approx(0.05, abs=1e-14)


def test_swapping_the_two_swaps_gained_and_lost():
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
def test_without_a_change_chance_predicts_the_numbers_and_nothing_is_sure():
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


def test_support_above_a_share_by_hand():
    # 1 of 4 then 3 of 4, above one half only then; of 4 right ones among 8 samples the base gets
    # i with chance C(4,i)^2 / 70 = 1, 16, 36, 16, 1 of 70; at most half, and the run more: i = 0, 1
    found = compare_support(Counts(("a",), [4], [1]), Counts(("a",), [4], [3]), delta=0.5)
    assert found.gained == ("a",)
    assert found.gained_by_chance == pytest.approx(17 / 70, abs=1e-12)
    assert found.lost_by_chance == pytest.approx(17 / 70, abs=1e-12)
    assert found.surely_gained == ()
    same = compare_support(Counts(("a",), [4], [2]), Counts(("a",), [4], [2]), delta=0.5)
    assert same.absent == ("a",)  # exactly one half isn't above it
    # 40 of 200 then 160 of 200: no doubt that it moved, but both are above 0.1
    base, run = Counts(("a",), [200], [40]), Counts(("a",), [200], [160])
    assert compare_support(base, run, delta=0.1).surely_gained == ()
    assert compare_support(base, run, delta=0.5).surely_gained == ("a",)


def test_paired_grades_by_hand():
    # Ten samples, none right of the base's and six of the run's: six pairs differ, and all of them
    # for the run. Swapped at random the base has none of the six in 1 of 2^6 cases, and so the run.
    base = graded(np.zeros((1, 10), dtype=bool))
    run = graded(np.arange(10)[None, :] < 6)
    found = compare_support(base, run)
    assert found.paired
    assert found.gained_by_chance == pytest.approx(1 / 64, abs=1e-12)
    assert found.lost_by_chance == pytest.approx(1 / 64, abs=1e-12)
    assert found.surely_gained == ("0",)  # 1/64 = .016
    # From other seeds they lie in one pool: none among the first ten of 20: C(14,10) / C(20,10)
    apart = compare_support(base, graded(run.grades.right_PN, seed=1))
    assert not apart.paired
    assert apart.gained_by_chance == pytest.approx(1001 / 184756, abs=1e-12)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=7),
    st.sampled_from([0.0, 0.3, 0.5]),
)
@settings(deadline=None)
def test_paired_chances_are_those_of_all_swaps(pairs, delta):
    """Enumerated: every pair swapped or not; the tests are McNemar's."""
    base, run = (graded(np.array([side])) for side in zip(*pairs, strict=True))
    gained = lost = 0
    for swaps in product((False, True), repeat=len(pairs)):
        turned = [pair[::-1] if swap else pair for pair, swap in zip(pairs, swaps, strict=True)]
        a, b = (sum(side) for side in zip(*turned, strict=True))
        above_a, above_b = (c > delta * len(pairs) + 1e-9 for c in (a, b))
        gained += above_b and not above_a
        lost += above_a and not above_b
    found, cases = compare_support(base, run, delta=delta), 2 ** len(pairs)
    assert found.gained_by_chance == pytest.approx(gained / cases, abs=1e-12)
    assert found.lost_by_chance == pytest.approx(lost / cases, abs=1e-12)
    for_run = sum(b and not a for a, b in pairs)
    differing = sum(a != b for a, b in pairs)
    if found.gained and differing:
        p = binomtest(for_run, differing, alternative="greater").pvalue
        for confidence in (1 - p * 1.001, 1 - p * 0.999):
            sure = compare_support(base, run, delta=delta, confidence=confidence).surely_gained
            assert bool(sure) == (p <= 1 - confidence)


@pytest.mark.slow
def test_with_shared_random_numbers_swaps_predict_what_an_urn_overstates():
    """One policy in two versions that differ in a tenth of the random numbers: nothing changed."""
    generator = np.random.default_rng(3)
    gained = swapped = urn = sure = 0.0
    for _ in range(200):
        p_P1 = generator.beta(0.2, 3, 60)[:, None]
        shared_PN, own_PN = generator.random((60, 32)), generator.random((60, 32))
        base = graded(shared_PN < p_P1)
        run = graded(np.where(generator.random((60, 32)) < 0.1, own_PN, shared_PN) < p_P1)
        found = compare_support(base, run)
        gained += len(found.gained)
        swapped += found.gained_by_chance
        apart = Counts(run.problem_ids, run.n_P, run.c_P)
        urn += compare_support(base, apart).gained_by_chance
        sure += bool(found.surely_gained)
    assert gained == pytest.approx(swapped, rel=0.15)
    assert urn > 1.5 * swapped
    assert sure / 200 <= 0.05
