""""""

import numpy as np
import pytest
from scipy import stats

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, curve
from sage_cli.metrics.ranking import (
    ObjectiveValues,
    non_dominated,
    objective_intervals,
    objective_values,
    pareto_front,
    rank,
)
from sage_cli.settings.objective import parse_objective


def counts(*solved, name="p"):
    ids = tuple(f"{name}{place}" for place in range(len(solved)))
    return Counts(ids, [n for n, _ in solved], [c for _, c in solved])


PASS_1 = parse_objective("pass@1")


def test_objectives_weigh_benchmarks_alike_and_match_problems_by_name():
    # n = 4: pass@1 = c / 4, pass@2 = 1 - C(4 - c, 2) / 6:
    # c = 1: 1/4 and 1 - 3/6 = 1/2, so .5 * 1/4 + .5 * 1/2 = .375
    # c = 3: 3/4 and 1, so .875
    found = objective_values(
        parse_objective("0.5*pass@1+0.5*pass@2"), [[{"dev": counts((4, 1), (4, 3))}]]
    )
    np.testing.assert_allclose(found.models[0], [[0.375, 0.875]], rtol=1e-14)
    assert found.highest == 1
    assert found.noise is None
    # one problem of a at 1, three of b at 0, 0 and 1/2: (1 + (1/2) / 3) / 2 = 7/12. Of 4 problems
    # that of a counts for 4 / (2 * 1) = 2, each of b for 4 / (2 * 3) = 2/3.
    run = {"a": counts((4, 4), name="a"), "b": counts((4, 0), (4, 0), (4, 2), name="b")}
    found = objective_values(PASS_1, [[run]])
    np.testing.assert_allclose(found.models[0], [[2, 0, 0, 1 / 3]], rtol=1e-14)
    assert found.models[0].mean() == pytest.approx(7 / 12)
    assert found.highest == 2
    turned = Counts(("p1", "p0"), [4, 4], [3, 1])
    found = objective_values(PASS_1, [[{"dev": counts((4, 1), (4, 3))}], [{"dev": turned}]])
    np.testing.assert_array_equal(*found.models)
    with pytest.raises(MetricError, match="the sides have different problems:"):
        objective_values(PASS_1, [[{"dev": counts((4, 1))}], [{"dev": turned}]])


def test_intervals_are_bands_of_one_run_and_students_of_several():
    generator = np.random.default_rng(0)
    one = counts(*((16, c) for c in generator.integers(0, 17, 30)))
    found = objective_intervals(objective_values(parse_objective("pass@4"), [[{"dev": one}]]))
    _, low, high = curve(one, (4,)).at(4)
    assert found == ((low, high),)
    for seeds in (1, 2):
        model = [{"dev": counts((8, c))} for c in range(seeds)]
        assert np.isnan(objective_intervals(objective_values(PASS_1, [model]))).all()
    # every problem moves with its run: between problems nothing is left when runs are seen
    runs = [[{"dev": counts((8, c), (8, c))} for c in seeds] for seeds in ((2, 4), (5, 5))]
    found = objective_intervals(objective_values(PASS_1, runs))
    # Means of the runs: 1/4, 1/2 and 5/8, 5/8. Within models: 2 * (1/8)^2 + 0 over 2 freedoms =
    # 1/64; of a mean of two runs 1/128. Problems and residual are 0.
    reach = stats.t.ppf(0.975, 2) / np.sqrt(128)
    np.testing.assert_allclose(found[0], (max(0, 0.375 - reach), 0.375 + reach), rtol=1e-9)
    np.testing.assert_allclose(found[1], (0.625 - reach, min(1, 0.625 + reach)), rtol=1e-9)


@pytest.mark.slow
def test_intervals_over_seeds_cover_what_other_seeds_and_problems_would_give():
    generator, repetitions, covered = np.random.default_rng(3), 300, 0
    for _ in range(repetitions):
        easy_P = generator.normal(0, 1, 30)
        models = []
        for _ in range(4):
            runs = []
            for _ in range(2):
                chance_P = 1 / (1 + np.exp(-(easy_P + generator.normal(0, 0.4))))
                c_P = generator.binomial(32, chance_P)
                runs.append({"dev": counts(*((32, c) for c in c_P))})
            models.append(runs)
        # by symmetry of the logits around 0 the mean over all problems and seeds is one half
        ((low, high), *_) = objective_intervals(objective_values(PASS_1, models))
        covered += low <= 0.5 <= high
    assert covered / repetitions >= 0.93


P, N = 40, 64


def drawn(generator, logit_P):
    c_P = generator.binomial(N, 1 / (1 + np.exp(-logit_P)))
    return Counts(tuple(f"p{i}" for i in range(P)), np.full(P, N), c_P)


def values(models, k=1):
    return objective_values(parse_objective(f"pass@{k}"), [[{"dev": one}] for one in models])


def test_the_clearly_worse_are_told_apart_also_by_two_seeds():
    generator = np.random.default_rng(0)
    logit_P = generator.normal(-0.5, 1.5, P)
    models = [drawn(generator, logit_P + gain) for gain in (0.0, 0.02, -1.5, 0.01, -1.0)]
    found = rank(values(models))
    assert set(found.indistinguishable) == {0, 1, 3}
    assert found.best in found.indistinguishable
    assert 0.001 < found.error < 0.05
    # the noise is pooled over cells: by two cells alone, of 2 degrees, nothing ever would be
    found = rank(with_seeds(np.random.default_rng(3), [0.0] * 8 + [-1.5], 2, 0.05))
    assert 8 not in found.indistinguishable
    assert len(found.indistinguishable) >= 7


@pytest.mark.slow
def test_of_equal_models_none_is_told_apart_in_95_of_100_repetitions():
    """Nine equal models: at 5 % for each comparison with the luckiest, far more would be."""
    generator = np.random.default_rng(1)
    wrong, repetitions = 0, 150
    for _ in range(repetitions):
        logit_P = generator.normal(-0.5, 1.5, P)
        found = rank(values([drawn(generator, logit_P) for _ in range(9)], 4))
        wrong += len(found.indistinguishable) < 9
    assert wrong / repetitions <= 0.05


def with_seeds(generator, gains, seeds, sd):
    """Models whose every run is moved as a whole by its seed."""
    logit_P = generator.normal(-0.5, 1.5, P)
    models = [
        [{"dev": drawn(generator, logit_P + gain + generator.normal(0, sd))} for _ in range(seeds)]
        for gain in gains
    ]
    return objective_values(parse_objective("pass@1"), models)


def test_what_a_seed_does_to_all_models_is_no_noise_of_their_gaps():
    def of(*means):
        """Runs on two problems with these means, (I, 2)."""
        return np.array([[mean, mean] for mean in means])

    # seeds move a by -1/5 to 1/5 and b alike: in no gap
    alike = ObjectiveValues((of(0.2, 0.4), of(0.3, 0.5)), 1.0)
    assert alike.noise_of_gaps.between_K == pytest.approx(0, abs=1e-16)
    assert alike.noise.between_K == pytest.approx(0.02)
    # gaps -.1 and 0: of variance .005, half of it each model's; one freedom of (2 - 1) (2 - 1)
    found = ObjectiveValues((of(0.2, 0.4), of(0.3, 0.4)), 1.0)
    assert found.noise_of_gaps.between_K == pytest.approx(0.0025)
    assert found.noise_of_gaps.residual_K == pytest.approx(0, abs=1e-16)
    assert found.noise_of_gaps.freedom == 1
    # models with different numbers of runs don't say which are common
    unlike = ObjectiveValues(
        (
            of(0.2, 0.4),
            of(
                0.3,
            ),
        ),
        1.0,
    )
    assert unlike.noise_of_gaps.between_K == pytest.approx(0.02)
    assert ObjectiveValues((of(0.2), of(0.3)), 1.0).noise_of_gaps is None


@pytest.mark.slow
def test_common_seeds_find_what_seeds_of_their_own_do_not():
    generator, logits = np.random.default_rng(6), np.array([0.4, 0.0, 0.0])
    told = []
    for _ in range(60):
        logit_P, seed_T = generator.normal(-0.5, 1.5, P), generator.normal(0, 0.4, 3)
        models = [
            [{"dev": drawn(generator, logit_P + gain + effect)} for effect in seed_T]
            for gain in logits
        ]
        found = objective_values(PASS_1, models)
        alone = ObjectiveValues((*found.models[:2], found.models[2][:2]), found.highest)
        told.append([len(rank(of).indistinguishable) == 1 for of in (found, alone)])
    common, unlike = np.mean(told, axis=0)
    assert common > 0.9
    assert unlike < 0.3


@pytest.mark.slow
def test_seeds_that_move_whole_runs_are_not_taken_for_differences_of_models():
    generator, repetitions, seen, blind = np.random.default_rng(2), 120, 0, 0
    for _ in range(repetitions):
        found = with_seeds(generator, [0.0] * 6, 2, 0.4)
        seen += len(rank(found).indistinguishable) < 6
        averaged = tuple(runs_IP.mean(axis=0)[None] for runs_IP in found.models)
        blind += len(rank(ObjectiveValues(averaged, found.highest)).indistinguishable) < 6
    assert seen / repetitions <= 0.07
    assert blind / repetitions > 0.5


def test_a_cell_of_one_seed_beside_cells_of_two_has_more_noise():
    generator = np.random.default_rng(4)
    found = with_seeds(generator, [0.0, -0.4, -0.4], 3, 0.2)
    lone = ObjectiveValues((*found.models[:2], found.models[2][:1]), found.highest)
    assert found.noise is not None
    gap_P1 = (found.models[0].mean(axis=0) - found.models[1].mean(axis=0))[:, None]
    three, one = (found.noise.sources(gap_P1, np.array([1 / 3 + 1 / T])).error[0] for T in (3, 1))
    assert one > three
    assert rank(lone).best == 0


def test_equal_counts_and_one_problem_tell_nothing_apart_nor_does_a_front():
    one = Counts(("a", "b"), [4, 4], [1, 3])
    found = rank(values([one, one]))
    assert found.indistinguishable == (0, 1)
    assert np.isnan(found.error)
    found = rank(values([Counts(("a",), [4], [c]) for c in (0, 4)]))
    assert (found.best, found.indistinguishable) == (1, (0, 1))
    # (1, 5), (3, 3) and (5, 1) trade one for the other; (2, 2) is beaten by (3, 3), and (3, 1) by
    # it and (5, 1); of two equal ones neither beats the other.
    points = np.array([(1, 5), (3, 3), (2, 2), (5, 1), (3, 1), (5, 1)], float)
    assert non_dominated(points) == (0, 1, 3, 5)


def test_a_point_is_off_the_front_where_one_is_better_for_sure_in_both():
    generator = np.random.default_rng(5)
    logit_P = generator.normal(-0.5, 1.5, P)

    def both(first, second):
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
