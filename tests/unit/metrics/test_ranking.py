from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts
from sage_cli.metrics.ranking import rank

P, N = 40, 64


def drawn(generator: np.random.Generator, logit_P: np.ndarray) -> Counts:
    c_P = generator.binomial(N, 1 / (1 + np.exp(-logit_P)))
    return Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)


def test_the_clearly_worse_are_told_apart_and_the_others_are_not() -> None:
    generator = np.random.default_rng(0)
    logit_P = generator.normal(-0.5, 1.5, P)
    models = [drawn(generator, logit_P + gain) for gain in (0.0, 0.02, -1.5, 0.01, -1.0)]
    found = rank(models, 1)
    assert set(found.alike) == {0, 1, 3}
    assert found.best in found.alike
    assert 0.001 < found.error < 0.05


@pytest.mark.slow
def test_of_equal_models_none_is_told_apart_in_95_of_100_repetitions() -> None:
    """Nine equal models: at 5 % for each comparison with the luckiest, far more would be."""
    generator = np.random.default_rng(1)
    wrong, repetitions = 0, 150
    for _ in range(repetitions):
        logit_P = generator.normal(-0.5, 1.5, P)
        found = rank([drawn(generator, logit_P) for _ in range(9)], 4)
        wrong += len(found.alike) < 9
    assert wrong / repetitions <= 0.05


def test_models_with_the_same_counts_are_alike_and_the_noise_is_unknown() -> None:
    one = Counts(("a", "b"), [4, 4], [1, 3])
    found = rank([one, one], 1)
    assert found.alike == (0, 1)
    assert np.isnan(found.error)
