from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sage_cli.metrics import Counts
from sage_cli.metrics.comparisons.objective import ObjectiveValues, objective_values
from sage_cli.metrics.comparisons.ranking import non_dominated, pareto_front, rank
from sage_cli.settings.objective import parse_objective

P, N = 40, 64


def drawn(generator: np.random.Generator, logit_P: np.ndarray) -> Counts:
    c_P = generator.binomial(N, 1 / (1 + np.exp(-logit_P)))
    return Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)


def values(models: Sequence[Counts], k: int = 1) -> ObjectiveValues:
    return objective_values(parse_objective(f"pass@{k}"), [[{"dev": one}] for one in models])


def test_the_clearly_worse_are_told_apart_and_the_others_are_not() -> None:
    generator = np.random.default_rng(0)
    logit_P = generator.normal(-0.5, 1.5, P)
    models = [drawn(generator, logit_P + gain) for gain in (0.0, 0.02, -1.5, 0.01, -1.0)]
    found = rank(values(models))
    assert set(found.indistinguishable) == {0, 1, 3}
    assert found.best in found.indistinguishable
    assert 0.001 < found.error < 0.05


@pytest.mark.slow
def test_of_equal_models_none_is_told_apart_in_95_of_100_repetitions() -> None:
    """Nine equal models: at 5 % for each comparison with the luckiest, far more would be."""
    generator = np.random.default_rng(1)
    wrong, repetitions = 0, 150
    for _ in range(repetitions):
        logit_P = generator.normal(-0.5, 1.5, P)
        found = rank(values([drawn(generator, logit_P) for _ in range(9)], 4))
        wrong += len(found.indistinguishable) < 9
    assert wrong / repetitions <= 0.05


def with_seeds(
    generator: np.random.Generator, gains: Sequence[float], seeds: int, sd: float
) -> ObjectiveValues:
    """Models whose every run is moved as a whole by its seed."""
    logit_P = generator.normal(-0.5, 1.5, P)
    models = [
        [{"dev": drawn(generator, logit_P + gain + generator.normal(0, sd))} for _ in range(seeds)]
        for gain in gains
    ]
    return objective_values(parse_objective("pass@1"), models)


@pytest.mark.slow
def test_seeds_that_move_whole_runs_are_not_taken_for_differences_of_models() -> None:
    generator, repetitions, seen, blind = np.random.default_rng(2), 120, 0, 0
    for _ in range(repetitions):
        found = with_seeds(generator, [0.0] * 6, 2, 0.4)
        seen += len(rank(found).indistinguishable) < 6
        averaged = tuple(runs_IP.mean(axis=0)[None] for runs_IP in found.models)
        blind += len(rank(ObjectiveValues(averaged, found.highest)).indistinguishable) < 6
    assert seen / repetitions <= 0.07
    assert blind / repetitions > 0.5


def test_nine_cells_of_two_seeds_still_tell_what_is_clearly_worse() -> None:
    """The noise is pooled over cells: by two cells alone, of 2 degrees, nothing ever would be."""
    found = rank(with_seeds(np.random.default_rng(3), [0.0] * 8 + [-1.5], 2, 0.05))
    assert 8 not in found.indistinguishable
    assert len(found.indistinguishable) >= 7


def test_a_cell_of_one_seed_beside_cells_of_two_has_more_noise() -> None:
    generator = np.random.default_rng(4)
    found = with_seeds(generator, [0.0, -0.4, -0.4], 3, 0.2)
    lone = ObjectiveValues((*found.models[:2], found.models[2][:1]), found.highest)
    assert found.noise is not None
    gap_P1 = (found.models[0].mean(axis=0) - found.models[1].mean(axis=0))[:, None]
    three, one = (found.noise.error(gap_P1, 1 / 3 + 1 / T)[0][0] for T in (3, 1))
    assert one > three
    assert rank(lone).best == 0


def test_models_with_the_same_counts_are_alike_and_the_noise_is_unknown() -> None:
    one = Counts(("a", "b"), [4, 4], [1, 3])
    found = rank(values([one, one]))
    assert found.indistinguishable == (0, 1)
    assert np.isnan(found.error)


def test_one_problem_tells_nothing_apart() -> None:
    found = rank(values([Counts(("a",), [4], [c]) for c in (0, 4)]))
    assert (found.best, found.indistinguishable) == (1, (0, 1))


def test_the_front_is_what_no_other_beats() -> None:
    # (1, 5), (3, 3) and (5, 1) trade one for the other; (2, 2) is beaten by (3, 3), and (3, 1) by
    # it and (5, 1); of two equal ones neither beats the other.
    points = np.array([(1, 5), (3, 3), (2, 2), (5, 1), (3, 1), (5, 1)], float)
    assert non_dominated(points) == (0, 1, 3, 5)


def test_a_point_is_off_the_front_where_one_is_better_for_sure_in_both() -> None:
    generator = np.random.default_rng(5)
    logit_P = generator.normal(-0.5, 1.5, P)

    def both(first: Sequence[float], second: Sequence[float]) -> list[ObjectiveValues]:
        return [
            values([drawn(generator, logit_P + gain) for gain in gains])
            for gains in (first, second)
        ]

    # 2 is worse than 0 in both; 3 is as good as 0 in the first, and worse in the second only;
    # 4 is close to 1 in both
    found = pareto_front(both([1.5, -1.5, -1.5, 1.5, -1.5], [0.0, 1.5, -1.5, -2.0, 1.49]))
    assert {0, 3} & set(found.best)
    assert 2 not in found.indistinguishable
    assert {0, 1, 3, 4} == set(found.indistinguishable)
