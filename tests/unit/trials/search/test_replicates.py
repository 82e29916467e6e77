"""Who is trained with further seeds in a race: the best half, then a quarter."""

import numpy as np
import pytest
from scipy import stats

from sage_cli.metrics import Counts, method_difference
from sage_cli.settings.objective import parse_objective
from sage_cli.trials.search.replicates import (
    _p_of_lead,
    best_first,
    contenders,
    next_rung,
    rung,
    stands_out,
)

PASS_1, PASS_8 = parse_objective("pass@1"), parse_objective("pass@8")
N = 64


def counts(p_P, generator, n=N, name="p"):
    ids = tuple(f"{name}{i}" for i in range(len(p_P)))
    return Counts(ids, np.full(len(p_P), n), generator.binomial(n, p_P))


def right(*c_P, n=10, name="p"):
    return Counts(tuple(f"{name}{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.array(c_P))


def test_a_race_begins_with_one_seed_each():
    measured = {"a": {0: [right(1, 2)]}, "b": {}}
    assert race(measured) == [("b", 0)]


def ranked(trials):
    """Trials of one seed whose pass@1 falls: of 10 samples 9 are right, 8, and so on."""
    return {place: {0: [right(9 - place, 9 - place)]} for place in range(trials)}


def test_the_best_half_gets_a_second_seed_and_the_best_quarter_a_third():
    measured = ranked(9)
    # of 9 trials ceil(9 / 2) = 5 get a second seed, ceil(9 / 4) = 3 a third
    assert race(measured) == [(place, 1) for place in range(5)]
    for place in range(5):
        measured[place][1] = [right(place + 3, place + 3)]  # means of both: 6, 6, 6, 6, 6 of 10
    measured[4][1] = [right(10, 10)]  # (5 + 10) / 2
    assert race(measured) == [(4, 2), (0, 2), (1, 2)]
    for place in (4, 0, 1):
        measured[place][2] = [right(5, 5)]
    assert race(measured) == []
    assert next_rung(measured, [PASS_1], 3)[1][0] == 4  # (5 + 10 + 5) / 3 against (9 + 3 + 5) / 3


def race(measured, **failed):
    return next_rung(measured, [PASS_1], 3, **failed)[0]


def test_a_rung_follows_from_the_seeds_before_it_in_whatever_order_they_come():
    measured = ranked(4)
    measured[0][1] = [right(0, 0)]
    assert race(measured) == [(1, 1)]  # 0 was of the best half by its first seed
    measured[3][1] = [right(10, 10)]  # of an earlier search: not of this rung
    assert race(measured) == [(1, 1)]
    assert race(dict(reversed(measured.items()))) == [(1, 1)]


def test_a_seed_that_fails_puts_its_trial_out():
    measured = ranked(4)
    measured[1][1] = [right(5, 5)]
    assert race(measured, failed={(0, 1)}) == [(1, 2)]


@pytest.mark.parametrize(
    ("trials", "seed", "kept"), [(9, 1, 5), (9, 2, 3), (30, 3, 4), (3, 2, 2), (1, 1, 1), (2, 5, 2)]
)
def test_a_rung_has_half_of_the_one_before_and_two_at_least(trials, seed, kept):
    assert rung(trials, seed) == kept


def test_fronts_come_one_after_the_other():
    # (3, 1), (1, 3) and (2.5, 2.5) are on the first front, by their sum 5, 4, 4; (2, 2) is behind
    values = [np.array(one) for one in ([2.0, 2.0], [3.0, 1.0], [2.5, 2.5], [1.0, 3.0])]
    assert best_first(values) == [2, 1, 3, 0]


def test_the_best_stands_out_where_its_lead_is_sure():
    generator = np.random.default_rng(0)
    p_P = generator.beta(2, 3, 100)
    measured = {
        name: {seed: [counts(p_P * share, generator)] for seed in range(3)}
        for name, share in {"best": 1, "far": 0.3}.items()
    }
    assert stands_out(measured, [PASS_1], ["best", "far"])
    measured["near"] = {seed: [counts(p_P * 0.99, generator)] for seed in range(3)}
    assert not stands_out(measured, [PASS_1], ["best", "near", "far"])


def test_benchmarks_weigh_alike_whatever_their_sizes():
    small, large = right(10, 10, name="s"), right(*[5] * 30, name="l")
    half = [right(5, 5, name="s"), right(*[6] * 30, name="l")]
    # (1 + .5) / 2 = .75 against (.5 + .6) / 2 = .55; over all problems 17/32 against 19/32
    found, _ = next_rung({"a": {0: [small, large]}, "b": {0: half}}, [PASS_1], 2)
    assert found == [("a", 1), ("b", 1)]


def test_one_problem_or_equal_counts_put_nobody_out():
    assert contenders([np.full((1, 1, 1), 0.1), np.full((1, 1, 1), 0.9)]) == {0, 1}


def test_single_seeds_are_compared_by_the_paired_t_test():
    generator = np.random.default_rng(1)
    a_P, b_P = generator.random(20), generator.random(20) + 0.3
    zero = np.zeros((1, 1))
    (p,) = _p_of_lead((b_P - a_P)[None, :, None], zero, zero, 0)[0]
    assert p == pytest.approx(stats.ttest_rel(b_P, a_P, alternative="greater").pvalue, rel=1e-9)


def test_two_trials_with_seeds_are_compared_as_two_methods_are():
    generator = np.random.default_rng(2)
    p_P = generator.beta(2, 3, 50)

    def runs(shift):
        return [[counts(np.clip(p_P + shift + generator.normal(0, 0.02), 0, 1), generator)]
                for _ in range(3)]  # fmt: skip

    a, b = runs(0.0), runs(0.08)
    p = float(method_difference(b, a, (1,)).p_K[0])
    values = [np.stack([run[0].c_P / N for run in side])[:, :, None] for side in (a, b)]
    # a is out exactly where the two-sided p is at most twice the one-sided level
    assert contenders(values, confidence=1 - p / 2 * 1.01) == {1}
    assert contenders(values, confidence=1 - p / 2 * 0.99) == {0, 1}
