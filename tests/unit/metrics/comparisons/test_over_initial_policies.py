"""The estimate over initial policies, by hand."""

import math

import numpy as np
import pytest

from sage_cli.metrics.comparisons.over_initial_policies import over_initial_policies


def test_students_t_over_initial_policies_by_hand():
    # means .01, .02, .03: mean .02, deviation .01, error .01 / 3^.5; the t of 2 degrees of freedom
    # that 5 % exceed is 4.3027; with t = 2 x 3^.5 = 12^.5, p = 1 - t / (2 + t^2)^.5
    found = over_initial_policies([np.array([m]) for m in (0.01, 0.02, 0.03)], [0.0] * 3, 0.95)
    assert found.policies == 3
    assert found.difference == pytest.approx(0.02)
    assert found.high - found.low == pytest.approx(2 * 4.302653 * 0.01 / math.sqrt(3), rel=1e-6)
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
    assert found.spread == found.between == pytest.approx(0.01)
    assert math.isnan(found.seeds)
    assert found.problems == 0


def test_seeds_and_problems_are_taken_out_of_the_spread():
    # within: deviations of +-.01 and +-.03, (2 x .0001 + 2 x .0009) / 2 = .001 a seed; means 0,
    # .1: variance .005, of which .001 / 2 are the seeds' and .0004 the problems'
    seeds = [np.array([-0.01, 0.01]), np.array([0.07, 0.13])]
    found = over_initial_policies(seeds, [0.0003, 0.0005], 0.95)
    assert found.spread == pytest.approx(math.sqrt(0.005))
    assert found.seeds == pytest.approx(math.sqrt(0.001))
    assert found.problems == pytest.approx(math.sqrt(0.0004))
    assert found.between == pytest.approx(math.sqrt(0.005 - 0.0005 - 0.0004))


def test_what_explains_more_than_the_spread_leaves_nothing():
    found = over_initial_policies([np.array([-1.0, 1.0]), np.array([-1.0, 1.5])], [0.1, 0.1], 0.95)
    assert found.between == 0


def test_two_initial_policies_have_no_interval_and_one_no_spread():
    two = over_initial_policies([np.array([0.1]), np.array([0.2])], [0.0, 0.0], 0.95)
    assert two.difference == pytest.approx(0.15)
    assert all(map(math.isnan, (two.low, two.high, two.p)))
    assert two.spread == pytest.approx(0.1 / math.sqrt(2))
    one = over_initial_policies([np.array([0.1, 0.3])], [0.0], 0.95)
    assert one.difference == pytest.approx(0.2)
    assert math.isnan(one.spread)
    assert one.seeds == pytest.approx(0.2 / math.sqrt(2))


def test_methods_that_are_the_same_do_not_differ():
    found = over_initial_policies([np.zeros(2)] * 4, [0.0] * 4, 0.95)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
