"""Who is trained with further seeds: everybody, or in a race whoever may still be the best."""

import numpy as np
import pytest
from scipy import stats

from sage_cli.metrics import Counts, method_difference
from sage_cli.settings.objective import parse_objective
from sage_cli.trials.search.replicates import _p_of_lead, contenders, missing_replicates

PASS_1, PASS_8 = parse_objective("pass@1"), parse_objective("pass@8")
N = 64


def counts(p_P, generator, n=N, name="p"):
    ids = tuple(f"{name}{i}" for i in range(len(p_P)))
    return Counts(ids, np.full(len(p_P), n), generator.binomial(n, p_P))


def right(*c_P, n=10, name="p"):
    return Counts(tuple(f"{name}{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.array(c_P))


def test_without_a_race_every_trial_has_every_seed():
    one = [right(1, 2)]
    measured = {"a": {0: one}, "b": {1: one}, "c": {}}
    assert missing_replicates(measured, [PASS_1], 2) == [("a", 1), ("b", 0), ("c", 0), ("c", 1)]


def test_a_race_begins_with_one_seed_each():
    measured = {"a": {0: [right(1, 2)]}, "b": {}}
    assert missing_replicates(measured, [PASS_1], 3, race=True) == [("b", 0)]


def test_hopeless_trials_get_no_second_seed_and_the_best_comes_first():
    generator = np.random.default_rng(0)
    p_P = generator.beta(2, 3, 100)
    measured = {
        "hopeless": {0: [counts(p_P * 0.3, generator)]},
        "fair": {0: [counts(p_P, generator)]},
        "best": {0: [counts(np.minimum(1, p_P * 1.5), generator)]},
    }
    # best is told apart from both; the runner-up shows what a seed does
    assert missing_replicates(measured, [PASS_1], 3, race=True) == [("best", 1), ("fair", 1)]
    measured["best"][1], measured["fair"][1] = measured["best"][0], measured["fair"][0]
    assert missing_replicates(measured, [PASS_1], 3, race=True) == [("best", 2)]
    measured["best"][2] = measured["best"][0]
    assert missing_replicates(measured, [PASS_1], 3, race=True) == []


def test_a_seed_that_shows_large_noise_brings_others_back():
    generator = np.random.default_rng(0)
    p_P = generator.beta(2, 3, 200)
    measured = {
        "second": {0: [counts(p_P * 0.8, generator)]},
        "first": {0: [counts(p_P, generator)]},
        "third": {0: [counts(p_P * 0.75, generator)]},
    }
    first = missing_replicates(measured, [PASS_1], 2, race=True)
    assert [trial for trial, _ in first] == ["first", "second"]
    measured["first"][1] = [counts(p_P * 0.6, generator)]  # the first seed was luck
    again = missing_replicates(measured, [PASS_1], 2, race=True)
    assert {trial for trial, _ in again} == {"second", "third"}


def test_what_leads_in_one_objective_stays():
    generator = np.random.default_rng(0)
    even_P, split_P = np.full(100, 0.3), np.where(np.arange(100) < 50, 0.9, 0.0)
    measured = {
        "covers": {0: [counts(even_P, generator)]},  # pass@1 .3, pass@8 .94
        "sharp": {0: [counts(split_P, generator)]},  # pass@1 .45, pass@8 .5
        "neither": {0: [counts(split_P * 0.2, generator)]},  # pass@1 .09, pass@8 .4
    }
    measured["neither"][1] = measured["neither"][0]  # so that nobody gets a seed to learn its noise
    found = missing_replicates(measured, [PASS_1, PASS_8], 3, race=True)
    assert {trial for trial, _ in found} == {"covers", "sharp"}


def test_benchmarks_weigh_alike_whatever_their_sizes():
    small, large = right(10, 10, name="s"), right(*[5] * 30, name="l")
    half = [right(5, 5, name="s"), right(*[6] * 30, name="l")]
    # (1 + .5) / 2 = .75 against (.5 + .6) / 2 = .55; over all problems 17/32 against 19/32
    found = missing_replicates({"a": {0: [small, large]}, "b": {0: half}}, [PASS_1], 2, race=True)
    assert found == [("a", 1), ("b", 1)]


def test_one_problem_or_equal_counts_put_nobody_out():
    same = {name: {0: [right(3, 4)]} for name in "abc"}
    assert len(missing_replicates(same, [PASS_1], 2, race=True)) == 3
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


@pytest.mark.slow
@pytest.mark.parametrize(("seed_sd", "cell_sd"), [(0.3, 0.3), (0.1, 0.4), (0.3, 0.0)])
def test_the_best_trial_stays_in_the_race(seed_sd, cell_sd):
    """Nine trials whose logits differ by `cell_sd`, and by `seed_sd` from seed to seed."""
    generator = np.random.default_rng(0)
    repetitions, kept, spent = 60, 0, 0
    for _ in range(repetitions):
        base_P = generator.normal(-0.5, 1.5, 60)
        shift_C = generator.normal(0, cell_sd, 9)
        own_CP = generator.normal(0, 0.3, (9, 60))
        measured = {trial: {} for trial in range(9)}
        while todo := missing_replicates(measured, [PASS_1], 3, race=True):
            for trial, seed in todo:
                logit_P = base_P + shift_C[trial] + own_CP[trial] + generator.normal(0, seed_sd)
                measured[trial][seed] = [counts(1 / (1 + np.exp(-logit_P)), generator)]
        kept += len(measured[int(shift_C.argmax())]) == 3
        spent += sum(map(len, measured.values()))
    assert kept / repetitions >= 0.95
    assert cell_sd == 0 or spent < 0.95 * repetitions * 9 * 3
