from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import betabinom, t

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.metrics.power import (
    Design,
    Population,
    estimator_variance,
    fit_beta,
    multiple,
    smallest_changes,
)
from sage_cli.metrics.precision import precision

EPSILON = 1e-9


def base(problems: int = 200, n: int = 256, seed: int = 0) -> Counts:
    """Counts of problems whose success probabilities are Beta(0.4, 1)."""
    generator = np.random.default_rng(seed)
    c_P = generator.binomial(n, generator.beta(0.4, 1.0, problems))
    return Counts(tuple(f"p{i}" for i in range(problems)), np.full(problems, n), c_P)


def probability(logit_M: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit_M))


def test_standard_errors_of_the_smallest_difference() -> None:
    for problems in (2, 30, 1_000):
        expected = t.ppf([0.975, 0.8], problems - 1).sum()
        assert multiple(problems) == pytest.approx(expected, rel=1e-9)


def test_the_estimators_variance_by_enumeration() -> None:
    # n = 2, k = 1, p = 1/2: c/2 is 0, 1/2, 1 with chances 1/4, 1/2, 1/4: variance 1/8;
    # k = 2: right unless c = 0: 3/4 x 1/4
    np.testing.assert_allclose(estimator_variance(np.zeros(1), 2, [1, 2]), [[1 / 8, 3 / 16]])
    n, k, p = 7, 3, 0.3
    chances = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    values = pass_at_k(np.full(n + 1, n), np.arange(n + 1), k)
    expected = np.dot(chances, values**2) - np.dot(chances, values) ** 2
    found = estimator_variance(np.array([np.log(p / (1 - p))]), n, [k])
    assert found[0, 0] == pytest.approx(expected, rel=1e-10)


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
    smallest_DK = smallest_changes(
        Population.of(counts), [Design(30, 16)], (1,), loss=right == 16, heterogeneity=0.0
    )
    assert 0 < smallest_DK[0, 0] < 0.5


def test_more_of_anything_sees_more() -> None:
    population, ks = Population.of(base()), (1, 8)
    kinds = list(product((30, 120), (16, 64), (1, 3)))
    found_DK = smallest_changes(population, [Design(*kind) for kind in kinds], ks)
    smallest = dict(zip(kinds, found_DK, strict=True))
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
    found_DK = smallest_changes(population, [Design(1, 64), Design(5, 8), Design(5, 64)], (1, 64))
    assert np.isnan(found_DK[0]).all()  # one problem says nothing of others
    assert np.isnan(found_DK[1, 1])  # k > n
    assert np.isnan(found_DK[2, 1])  # five problems, most of them solved: no room for a gain
    assert found_DK[2, 0] > 0


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
    before = 1 - (1 - probability(population.logit_M)) ** k
    shifts = np.linspace(-1, 4, 101)
    changes = [
        sign * (1 - (1 - probability(population.shifted(sign * u, heterogeneity))) ** k - before)
        for u in shifts
    ]
    means = np.array([change.mean() for change in changes])
    shift = sign * float(np.interp(stated, means, shifts))
    ids = tuple(map(str, range(design.problems)))
    n_P = np.full(design.problems, design.samples)
    detected, repetitions = 0, 250
    for _ in range(repetitions):
        logit_P = generator.choice(population.logit_M, design.problems)
        moved_P = logit_P + shift + heterogeneity * generator.standard_normal(design.problems)
        trained, base_ = (
            [Counts(ids, n_P, generator.binomial(design.samples, probability(x)))
             for _ in range(design.seeds)]
            for x in (moved_P, logit_P)
        )  # fmt: skip
        detected += precision([([trained], [base_])], (k,)).p()[0] <= 0.05
    # repetitions alone scatter by .025; the test is Student's, the differences are skewed
    assert 0.74 <= detected / repetitions <= 0.88
