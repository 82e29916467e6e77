from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.comparisons.objective import ObjectiveValues
from sage_cli.metrics.comparisons.winner import gap_over, gap_over_base, optimism, winner


def values(*models: list[list[float]], highest: float = 1.0) -> ObjectiveValues:
    """Models, each with the values of every problem in each of its runs."""
    return ObjectiveValues(tuple(np.array(model, dtype=float) for model in models), highest)


def noisy(
    seeds: int, seed_sd: float, problem_sd: float = 0.0, lead: float = 0.0
) -> ObjectiveValues:
    """Nine models on 50 problems, the first of which is better by `lead`."""
    generator = np.random.default_rng(3)
    mean_Z11 = np.where(np.arange(9) == 0, 0.5 + lead, 0.5)[:, None, None]
    seed_ZI1 = generator.normal(0, seed_sd, (9, seeds, 1))
    problem_Z1P = generator.normal(0, problem_sd, (9, 1, 50)) if problem_sd else 0
    shared_P = generator.normal(0, 0.3, 50)
    return ObjectiveValues(tuple(mean_Z11 + seed_ZI1 + problem_Z1P + shared_P), 1.0)


def test_the_best_is_compared_with_the_base_and_the_second_best_by_problem() -> None:
    found = winner(values([[0.1, 0.2]], [[0.6, 1.0]], [[0.5, 0.5]]), np.array([0.4, 0.4]))
    assert (found.best, found.second) == (1, 2)
    assert found.over_base is not None
    assert found.over_second is not None
    assert found.over_base.value == pytest.approx(0.4)  # .6 - .4 and 1 - .4: (.2 + .6) / 2
    assert found.over_second.value == pytest.approx(0.3)  # (.1 + .5) / 2
    assert found.over_base.low < 0.4 < found.over_base.high


def test_one_model_has_no_second_and_no_optimism_and_one_problem_no_interval() -> None:
    alone = winner(values([[0.1, 0.2]]))
    assert (alone.best, alone.second, alone.over_base) == (0, None, None)
    assert (alone.over_second, alone.optimism) == (None, None)
    gap = gap_over_base(values([[0.5]], [[0.2]]), 0, np.array([0.1]))
    assert gap.value == pytest.approx(0.4)
    assert np.isnan([gap.low, gap.high]).all()
    chosen = optimism(values([[0.5]], [[0.2]]))
    assert np.isnan(chosen.least)
    assert chosen.most == pytest.approx(0.15)  # .5 - (.5 + .2) / 2


def test_several_seeds_give_student_s_t_over_seeds_and_problems() -> None:
    # runs' means .5, .7 and .3, .3: squares .02 and 0 over 2 degrees of freedom: between runs .01.
    # Every problem has the same gap, and runs differ by the same on all: nothing else.
    # Gap .3, error sqrt(.01 * (1/2 + 1/2)) = .1, t of 2 degrees of freedom 4.3027.
    many = 60  # enough for the interval of the runs at hand to be the narrower one
    two = values([[0.4, 0.6] * many, [0.6, 0.8] * many], [[0.2, 0.4] * many] * 2)
    gap = gap_over(two, 0, 1)
    assert (gap.value, gap.low) == (pytest.approx(0.3), pytest.approx(0.3 - 0.43027, abs=1e-5))
    # a fixed base has no seeds: share 1/2, error sqrt(.005); Howe's interval is Student's here
    gap = gap_over_base(two, 0, np.array([0.1, 0.3] * many))
    assert gap.value == pytest.approx(0.4)
    assert gap.high - gap.value == pytest.approx(4.30265 * 0.005**0.5, abs=1e-4)
    few = gap_over_base(values([[0.4], [0.6]] * 2, [[0.2]] * 2), 0, np.array([0.1]))
    assert np.isnan(few.low)


def test_one_run_of_a_race_has_the_seeds_variance_of_the_others() -> None:
    raced = values([[0.6, 0.8] * 9], [[0.4, 0.6] * 9, [0.6, 0.8] * 9], [[0.2, 0.4] * 9] * 2)
    gap = gap_over_base(raced, 0, np.array([0.1, 0.3] * 9))
    assert gap.high - gap.value == pytest.approx(4.30265 * 0.1, abs=1e-4)  # share 1


def test_gaps_of_sums_that_reach_further_than_1_have_wider_intervals() -> None:
    one, two = ([[0.0, 0.4, 0.8, 0.2]], [[0.1, 0.1, 0.2, 0.4]])
    narrow, wide = (
        gap_over_base(values(one, two, highest=highest), 0, np.array([0.1, 0.0, 0.1, 0.2]))
        for highest in (1.0, 2.0)
    )
    assert wide.value == pytest.approx(narrow.value)
    assert wide.high >= narrow.high
    assert wide.high - wide.low > narrow.high - narrow.low


def test_twice_the_values_with_twice_the_highest_have_twice_the_interval() -> None:
    one, base_P = np.array([[0.1, 0.5, 0.9, 0.3, 0.4]]), np.array([0.0, 0.2, 0.7, 0.4, 0.1])
    once = gap_over_base(ObjectiveValues((one,), 1.0), 0, base_P)
    twice = gap_over_base(ObjectiveValues((2 * one,), 2.0), 0, 2 * base_P)
    assert (twice.low, twice.high) == pytest.approx((2 * once.low, 2 * once.high))


def test_the_bounds_of_optimism_with_one_seed() -> None:
    chosen = optimism(noisy(1, seed_sd=0.02))
    assert chosen.estimate is None
    assert chosen.least == 0  # problems say the same of all models
    values_Z = [runs_IP.mean() for runs_IP in noisy(1, seed_sd=0.02).models]
    assert chosen.most == pytest.approx(max(values_Z) - np.mean(values_Z))


def test_optimism_of_equal_models_is_that_of_the_maximum_of_normal_deviates() -> None:
    # the mean of the highest of 9 standard normal deviates is 1.485; deviation .02 / sqrt(400)
    chosen = optimism(noisy(400, seed_sd=0.02), resamples=4000)
    assert chosen.estimate == pytest.approx(1.485 * 0.02 / 20, rel=0.05)
    # resampled problems alone: deviation .1 / sqrt(50) of every model's mean
    chosen = optimism(noisy(1, seed_sd=0.0, problem_sd=0.1), resamples=4000)
    assert chosen.least == pytest.approx(1.485 * 0.1 / 50**0.5, rel=0.2)


def test_a_model_that_leads_by_far_was_not_chosen_by_luck() -> None:
    chosen = optimism(noisy(3, seed_sd=0.02, lead=0.3))
    assert chosen.estimate == pytest.approx(0, abs=1e-3)
    assert chosen.most > 0.2
