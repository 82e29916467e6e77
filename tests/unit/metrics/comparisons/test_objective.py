from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, curve
from sage_cli.metrics.comparisons.objective import objective_intervals, objective_values
from sage_cli.settings.objective import parse_objective


def counts(*solved: tuple[int, int], name: str = "p") -> Counts:
    ids = tuple(f"{name}{place}" for place in range(len(solved)))
    return Counts(ids, [n for n, _ in solved], [c for _, c in solved])


PASS_1 = parse_objective("pass@1")


def test_a_sum_is_the_sum_of_every_problem_s_pass_at_k() -> None:
    # n = 4: pass@1 = c / 4, pass@2 = 1 - C(4 - c, 2) / 6:
    # c = 1: 1/4 and 1 - 3/6 = 1/2, so .5 * 1/4 + .5 * 1/2 = .375
    # c = 3: 3/4 and 1, so .875
    found = objective_values(
        parse_objective("0.5*pass@1+0.5*pass@2"), [[{"dev": counts((4, 1), (4, 3))}]]
    )
    np.testing.assert_allclose(found.models[0], [[0.375, 0.875]], rtol=1e-14)
    assert found.highest == 1
    assert found.noise is None


def test_several_benchmarks_count_alike_however_many_problems_they_have() -> None:
    # one problem of a at 1, three of b at 0, 0 and 1/2: (1 + (1/2) / 3) / 2 = 7/12. Of 4 problems
    # that of a counts for 4 / (2 * 1) = 2, each of b for 4 / (2 * 3) = 2/3.
    run = {"a": counts((4, 4), name="a"), "b": counts((4, 0), (4, 0), (4, 2), name="b")}
    found = objective_values(PASS_1, [[run]])
    np.testing.assert_allclose(found.models[0], [[2, 0, 0, 1 / 3]], rtol=1e-14)
    assert found.models[0].mean() == pytest.approx(7 / 12)
    assert found.highest == 2


def test_problems_are_matched_by_name_and_others_are_refused() -> None:
    turned = Counts(("p1", "p0"), [4, 4], [3, 1])
    found = objective_values(PASS_1, [[{"dev": counts((4, 1), (4, 3))}], [{"dev": turned}]])
    np.testing.assert_array_equal(*found.models)
    with pytest.raises(MetricError, match="the problems differ"):
        objective_values(PASS_1, [[{"dev": counts((4, 1))}], [{"dev": turned}]])


def test_one_run_s_interval_is_the_band_of_its_curve() -> None:
    generator = np.random.default_rng(0)
    one = counts(*((16, c) for c in generator.integers(0, 17, 30)))
    found = objective_intervals(objective_values(parse_objective("pass@4"), [[{"dev": one}]]))
    _, low, high = curve(one, (4,)).at(4)
    assert found == ((low, high),)


def test_several_runs_interval_is_student_s_with_the_noise_pooled_over_models() -> None:
    """Every problem moves with its run: between problems nothing is left when runs are seen."""
    runs = [[{"dev": counts((8, c), (8, c))} for c in seeds] for seeds in ((2, 4), (5, 5))]
    found = objective_intervals(objective_values(PASS_1, runs))
    # Means of the runs: 1/4, 1/2 and 5/8, 5/8. Within models: 2 * (1/8)^2 + 0 over 2 freedoms =
    # 1/64; of a mean of two runs 1/128. Problems and residual are 0.
    reach = stats.t.ppf(0.975, 2) / np.sqrt(128)
    np.testing.assert_allclose(found[0], (max(0, 0.375 - reach), 0.375 + reach), rtol=1e-9)
    np.testing.assert_allclose(found[1], (0.625 - reach, min(1, 0.625 + reach)), rtol=1e-9)


def test_one_problem_has_no_interval() -> None:
    for seeds in (1, 2):
        model = [{"dev": counts((8, c))} for c in range(seeds)]
        assert np.isnan(objective_intervals(objective_values(PASS_1, [model]))).all()


@pytest.mark.slow
def test_intervals_over_seeds_cover_what_other_seeds_and_problems_would_give() -> None:
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
