from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import betabinom, t

from sage_cli.metrics import Counts
from sage_cli.metrics.design.population import Population, fit_beta
from sage_cli.metrics.design.power import (
    CORRELATION,
    Design,
    multiple,
    resampled_changes,
    smallest_changes,
)
from sage_cli.metrics.design.precision import precision

EPSILON = 1e-9


def base(problems: int = 200, n: int = 256, seed: int = 0) -> Counts:
    """Counts of problems whose success probabilities are Beta(0.4, 1)."""
    generator = np.random.default_rng(seed)
    c_P = generator.binomial(n, generator.beta(0.4, 1.0, problems))
    return Counts(tuple(f"p{i}" for i in range(problems)), np.full(problems, n), c_P)


def probability(logit_L: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit_L))


def together(
    a_P: np.ndarray, b_P: np.ndarray, n: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Right ones of two policies whose grades on a sample have the default correlation."""
    covariance_P = np.minimum(
        CORRELATION * np.sqrt(a_P * (1 - a_P) * b_P * (1 - b_P)),
        np.minimum(a_P, b_P) - a_P * b_P,
    )
    both_P = a_P * b_P + covariance_P
    chances_P4 = np.stack([both_P, a_P - both_P, b_P - both_P, 1 - a_P - b_P + both_P], axis=1)
    c_P4 = generator.multinomial(n, np.clip(chances_P4, 0, 1))
    return c_P4[:, 0] + c_P4[:, 1], c_P4[:, 0] + c_P4[:, 2]


def test_shared_random_numbers_let_a_design_see_more() -> None:
    population, designs = Population.of(base()), [Design(60, 16)]
    apart, shared, closely = (
        smallest_changes(population, designs, (1, 8), correlation=r)[0] for r in (0.0, 0.36, 0.75)
    )
    assert (closely < shared).all()
    assert (shared < apart).all()


@pytest.mark.slow
def test_the_interval_holds_the_answer_that_all_problems_of_the_kind_would_give() -> None:
    designs, ks, everything = [Design(60, 64)], (1, 16), base(20_000, 64, seed=3)
    truth_K = smallest_changes(Population.of(everything, 20_000), designs, ks)[0]
    held = []
    for seed in range(12):
        counted = base(60, 64, seed)
        low_K, high_K = resampled_changes(counted, designs, ks, beta=Population.of(counted).beta)[
            :, 0
        ]
        held.append((low_K <= truth_K) & (truth_K <= high_K))
    assert np.mean(held) >= 0.8


def test_standard_errors_of_the_smallest_difference() -> None:
    for problems in (2, 30, 1_000):
        expected = t.ppf([0.975, 0.8], problems - 1).sum()
        assert multiple(problems - 1) == pytest.approx(expected, rel=1e-9)


def test_the_fitted_beta_is_the_likeliest_and_near_the_truth() -> None:
    counts = base(problems=400, n=64)
    a, b = fit_beta(counts)
    assert (a, b) == pytest.approx((0.4, 1.0), rel=0.2)

    def likelihood(a: float, b: float) -> float:
        return float(betabinom.logpmf(counts.c_P, counts.n_P, a, b).sum())

    for x, y in product((0.95, 1, 1.05), repeat=2):
        assert likelihood(a, b) >= likelihood(a * x, b * y) - EPSILON


@pytest.mark.parametrize("right", [0, 16])
def test_a_base_that_never_or_always_is_right_can_be_asked_about(right: int) -> None:
    counts = Counts(tuple(f"p{i}" for i in range(30)), [16] * 30, [right] * 30)
    smallest_QK = smallest_changes(
        Population.of(counts), [Design(30, 16)], (1,), loss=right == 16, heterogeneity=0.0
    )
    assert 0 < smallest_QK[0, 0] < 0.5


def test_more_of_anything_sees_more() -> None:
    population, ks = Population.of(base()), (1, 8)
    kinds = list(product((30, 120), (16, 64), (1, 3)))
    found_QK = smallest_changes(population, [Design(*kind) for kind in kinds], ks)
    smallest = dict(zip(kinds, found_QK, strict=True))
    for P, n, S in kinds:
        for more in ((120, n, S), (P, 64, S), (P, n, 3)):
            assert (smallest[more] <= smallest[P, n, S] + EPSILON).all()
    few, many = smallest[30, 16, 1][0], smallest[120, 16, 1][0]
    # a quarter of the variance: half, but for the larger t of fewer problems and a change of p
    assert many == pytest.approx(few / 2, rel=0.15)
    alike = smallest_changes(population, [Design(30, 64)], ks, heterogeneity=0.0)[0]
    assert (alike < smallest[30, 64, 1]).all()


def test_what_cannot_be_seen_is_undefined() -> None:
    population = Population.of(base())
    found_QK = smallest_changes(population, [Design(1, 64), Design(5, 8), Design(5, 64)], (1, 64))
    assert np.isnan(found_QK[0]).all()  # one problem says nothing of others
    assert np.isnan(found_QK[1, 1])  # k > n
    assert np.isnan(found_QK[2, 1])  # five problems, most of them solved: no room for a gain
    assert found_QK[2, 0] > 0


@pytest.mark.parametrize(
    ("design", "k", "loss", "heterogeneity"),
    [
        (Design(60, 16), 1, False, 0.0),
        (Design(30, 64, 2), 4, False, 0.5),
        (Design(100, 64), 16, True, 0.5),
    ],
)
@pytest.mark.slow
def test_the_smallest_change_is_detected_in_about_80_of_100_repetitions(
    design: Design, k: int, loss: bool, heterogeneity: float
) -> None:
    """Studies drawn from the fitted population, their true mean change being the stated one."""
    population, generator = Population.of(base()), np.random.default_rng(design.problems)
    ((stated,),) = smallest_changes(
        population, [design], (k,), loss=loss, heterogeneity=heterogeneity
    )
    sign = -1 if loss else 1
    before = 1 - (1 - probability(population.logit_L)) ** k
    shifts = np.linspace(-1, 4, 101)
    changes = [
        sign * (1 - (1 - probability(population.shifted(sign * u, heterogeneity))) ** k - before)
        for u in shifts
    ]
    means = np.array([change.mean() for change in changes])
    shift = sign * float(np.interp(stated, means, shifts))
    ids = tuple(map(str, range(design.problems)))
    n_P = np.full(design.problems, design.samples)
    detected, repetitions = 0, 600
    for _ in range(repetitions):
        logit_P = generator.choice(population.logit_L, design.problems)
        moved_P = logit_P + shift + heterogeneity * generator.standard_normal(design.problems)
        pairs = [
            together(probability(moved_P), probability(logit_P), design.samples, generator)
            for _ in range(design.seeds)
        ]
        trained, base_ = (
            [Counts(ids, n_P, c_P) for c_P in side] for side in zip(*pairs, strict=True)
        )
        detected += precision([([trained], [base_])], (k,)).p()[0] <= 0.05
    # repetitions alone scatter by .016; the test is Student's, the differences are skewed
    assert 0.74 <= detected / repetitions <= 0.88
