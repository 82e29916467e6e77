"""Discovery, forgetting and coverage of a training of three problems, by hand."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.visits import Visits

# problem 0: missed, solved, missed; problem 1: solved, solved; problem 2: never
VISITS = Visits(
    step_V=np.array([1, 1, 2, 2, 3, 3]),
    problem_V=np.array([0, 1, 0, 2, 0, 1]),
    n_V=np.array([4, 4, 4, 4, 4, 2]),
    right_V=np.array([0, 3, 1, 0, 0, 2]),
)


def test_first_and_last_visits():
    assert VISITS.problems == 3
    assert VISITS.first.tolist() == [0, 1, 3]
    assert VISITS.last.tolist() == [4, 5, 3]


def test_a_problem_is_discovered_once():
    assert VISITS.discovery.tolist() == [1, 2]  # problem 1 at step 1, problem 0 at step 2


def test_solved_problems_against_steps_and_completions():
    x, y = VISITS.solved_by(VISITS.step_V)
    assert (x.tolist(), y.tolist()) == ([1, 2, 3], [1, 2, 2])
    x, y = VISITS.solved_by(np.cumsum(VISITS.n_V))
    assert (x.tolist(), y.tolist()) == ([8, 12, 22], [1, 2, 2])  # 4 + 4, + 4, all


def test_each_visit_and_the_next_of_its_problem():
    one, following = VISITS.next_of
    assert sorted(zip(one.tolist(), following.tolist(), strict=True)) == [(0, 2), (1, 5), (2, 4)]


def test_rates_of_problems_that_came_again():
    first_P, last_P = VISITS.rates()
    assert first_P.tolist() == [0, 0.75]
    assert last_P.tolist() == [0, 1]


def test_nothing_solved():
    none = Visits(*(np.array([v]) for v in (1, 0, 4, 0)))
    x, y = none.solved_by(none.step_V)
    assert (x.tolist(), y.tolist()) == ([1], [0])
    assert [len(one) for one in none.rates()] == [0, 0]
