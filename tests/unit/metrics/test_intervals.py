""""""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, curve, pass_at_k
from sage_cli.metrics.differences import gap_interval
from sage_cli.metrics.intervals import (
    Interval,
    Resampling,
    drawn_times,
    gaffke,
    holm,
    in_columns,
    narrower,
    ranked,
    resampled_means,
    studentised,
    tail_rank,
    two_sided_p,
    two_sided_reach,
)

FREEDOM_K = np.array([1, 1.3, 2, 2.7, 4, 8.5, 30, 299, 2000])


@pytest.mark.parametrize("t", [0.0, 1e-6, -0.1, 1.0, 2.776, 12.0, 1e4])
def test_p_against_scipy(t):
    expected_K = 2 * stats.t.sf(abs(t), FREEDOM_K)
    np.testing.assert_allclose(two_sided_p(np.full(9, t), FREEDOM_K), expected_K, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_reach_against_scipy(alpha):
    expected_K = stats.t.isf(alpha / 2, FREEDOM_K)
    np.testing.assert_allclose(two_sided_reach(alpha, FREEDOM_K), expected_K, rtol=1e-9)


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_by_hand_also_where_tests_are_undefined():
    # in order .01, .02, .03, .04 times 4, 3, 2, 1: .04, .06, .06, .04, and none below one before
    np.testing.assert_allclose(holm([0.03, 0.01, 0.04, 0.02]), [0.06, 0.04, 0.06, 0.06], rtol=1e-15)
    np.testing.assert_allclose(holm([0.6, 0.7]), [1.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(
        holm([[0.01, np.nan], [np.nan, 0.04]]), [[0.02, np.nan], [np.nan, 0.04]], rtol=1e-15
    )
    assert holm([]).shape == (0,)


@given(P_VALUES)
def test_rejections_are_those_of_the_step_down_procedure(p):
    """Holm's own words: go up the ordered p-values while p is at most alpha / (those left)."""
    alpha, order = 0.05, sorted(range(len(p)), key=lambda i: p[i])
    rejected = set()
    for step, place in enumerate(order):
        if p[place] * (len(p) - step) > alpha:
            break
        rejected.add(place)
    assert {i for i, value in enumerate(holm(p)) if value <= alpha} == rejected


@given(P_VALUES)
def test_adjusted_values_are_no_smaller_keep_the_order_and_stay_below_one(p):
    held = holm(p)
    assert (held >= np.array(p)).all()
    assert (held <= 1).all()
    assert (np.diff(held[np.argsort(p, kind="stable")]) >= 0).all()


def bounds_of(values, bounds=(0, 1)):
    values_PK = np.asarray(values, float)[:, None]
    return gaffke(values_PK, bounds, Resampling(resamples=40_000))


def test_gaffkes_bounds_and_p_by_hand():
    # Values 0 and 1 with weights (v, w) and u for the unseen. Lower: w alone, P(w > t) = (1-t)^2,
    # so (1 - t)^2 = .975. Upper: w + u = 1 - v, P(1 - v > t) = 1 - t^2, so t^2 = .975.
    found = bounds_of([0, 1])
    assert found.low_K[0] == pytest.approx(1 - 0.975**0.5, rel=0.03)
    assert found.high_K[0] == pytest.approx(0.975**0.5, rel=0.002)
    # 10 gaps of 1/2: the mean of 1/2 and an unseen -1 is 0 at weights 2/3 and 1/3; the 10 weigh
    # less than 2/3 with probability (2/3)^10, on either side alike. Gaps of 0 say nothing.
    assert bounds_of([0.5] * 10, (-1, 1)).p_K[0] == pytest.approx(2 * (2 / 3) ** 10, rel=1e-12)
    assert bounds_of([-0.5] * 10, (-1, 1)).p_K[0] == pytest.approx(2 * (2 / 3) ** 10, rel=1e-12)
    assert bounds_of([0.0] * 10, (-1, 1)).p_K[0] == 1


@pytest.mark.parametrize(("ones", "problems"), [(3, 20), (0, 40), (59, 60), (1, 100)])
def test_right_or_wrong_gives_clopper_and_pearsons_interval(ones, problems):
    # The weights of `ones` values add up to Beta(ones, P - ones + 1): Clopper and Pearson 1934.
    found = bounds_of([1.0] * ones + [0.0] * (problems - ones))
    low = stats.beta.ppf(0.025, ones, problems - ones + 1) if ones else 0.0
    high = stats.beta.ppf(0.975, ones + 1, problems - ones)
    assert found.low_K[0] == pytest.approx(low, rel=0.1, abs=1e-12)
    assert found.high_K[0] == pytest.approx(high, rel=0.01)


def test_neither_other_bounds_nor_blocks_of_weights_change_anything(monkeypatch):
    values = np.random.default_rng(1).random(12)
    unit, wide = bounds_of(values), bounds_of(2 * values - 1, (-1, 1))
    np.testing.assert_allclose(wide.low_K, 2 * unit.low_K - 1, rtol=1e-9)
    np.testing.assert_allclose(wide.high_K, 2 * unit.high_K - 1, rtol=1e-9)
    values_PK = np.random.default_rng(0).random((50, 2))
    whole = gaffke(values_PK, (0, 1), Resampling(confidence=0.9, resamples=500, seed=1))
    monkeypatch.setattr("sage_cli.metrics.intervals.BLOCK", 700)  # 13 rows, then a column
    parts = gaffke(values_PK, (0, 1), Resampling(confidence=0.9, resamples=500, seed=1))
    np.testing.assert_allclose(parts.low_K, whole.low_K, rtol=1e-12)
    np.testing.assert_allclose(parts.high_K, whole.high_K, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_values_alike_in_closed_form_are_the_limit_of_values_almost_alike(value):
    almost = np.full(30, value)
    almost[0] += 1e-9 if value < 1 else -1e-9
    exact, drawn = bounds_of([value] * 30), bounds_of(almost)
    np.testing.assert_allclose(exact.low_K, drawn.low_K, rtol=0.01, atol=1e-9)
    np.testing.assert_allclose(exact.high_K, drawn.high_K, rtol=0.01, atol=1e-9)


def test_against_a_loop_over_resamples():
    values_P = np.random.default_rng(2).exponential(1, 15) - 0.4
    found = studentised(values_P[:, None], Resampling(confidence=0.9, resamples=199, seed=7))
    mean, error = values_P.mean(), values_P.std(ddof=1) / 15**0.5
    distances = []
    for _, times in drawn_times(15, 15, Resampling(resamples=199, seed=7)):
        for row in times.astype(int):
            drawn = np.repeat(values_P, row)
            distances.append(abs(drawn.mean() - mean) / (drawn.std(ddof=1) / 15**0.5))
    reach = sorted(distances)[-20]  # a tenth of 199 draws and the observed value
    np.testing.assert_allclose(found.low_K, mean - reach * error, rtol=1e-9)
    np.testing.assert_allclose(found.high_K, mean + reach * error, rtol=1e-9)
    at_least = sum(distance >= abs(mean) / error for distance in distances)
    assert found.p_K[0] == pytest.approx((at_least + 1) / 200, abs=1e-12)


def test_many_even_values_reach_as_far_as_students_t_and_few_nowhere():
    # t with 99 degrees of freedom: 1.984; a spread of resampling of about 2 %
    values_P = np.random.default_rng(0).normal(0, 1, 100)
    found = studentised(values_P[:, None], Resampling(resamples=20_000))
    half = (found.high_K[0] - found.low_K[0]) / 2
    assert half / (values_P.std(ddof=1) / 10) == pytest.approx(1.984, rel=0.03)
    # 2 of 40 differ: resamples without either of them come with probability (38/40)^40 = .13
    found = studentised(np.array([[0.5]] * 2 + [[0.0]] * 38), Resampling(resamples=1000))
    assert (found.low_K[0], found.high_K[0]) == (-np.inf, np.inf)
    assert 0.1 < found.p_K[0] < 1
    alike = studentised(np.full((40, 1), 0.5), Resampling(resamples=1000))
    assert (alike.low_K[0], alike.high_K[0], alike.p_K[0]) == (-np.inf, np.inf, 1)


GAPS = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.0, 0.01, 0.25, 0.5, 1.0]), min_size=2)


@settings(max_examples=60)
@given(GAPS, st.sampled_from([0.8, 0.95]), st.integers(0, 9))
def test_zero_lies_outside_exactly_where_p_is_small(gaps, confidence, seed):
    gap_PK = np.stack([gaps, np.asarray(gaps) / 3 + 0.1], axis=1)
    how = Resampling(confidence, 199, seed)
    for found in (
        gaffke(gap_PK, (-1, 1), how),
        studentised(gap_PK, how),
        gap_interval(gap_PK, how),
    ):
        outside_K = (found.low_K > 0) | (found.high_K < 0)
        np.testing.assert_array_equal(outside_K, found.p_K <= 1 - confidence + 1e-12)
        assert (found.low_K <= gap_PK.mean(axis=0) + 1e-12).all()
        assert (found.high_K >= gap_PK.mean(axis=0) - 1e-12).all()


def test_ranks_and_the_narrower_interval_by_hand():
    # .025 of 1,999 draws and the observed value is 50 of 2,000; of 2,000 and one it is 50.025
    assert (tail_rank(0.025, 1_999), tail_rank(0.025, 2_000)) == (50, 50)
    assert tail_rank((1 - 0.95) / 2, 39) == 1
    with pytest.raises(MetricError, match="38 resamples are too few") as caught:
        tail_rank(0.025, 38)
    assert caught.value.next_step == "set evaluation.bootstrap to 40 or more"
    draws_RK = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 4.0]])
    assert ranked(draws_RK, 1).tolist() == [1, 0]
    assert ranked(draws_RK, 2).tolist() == [2, 4]
    assert ranked(draws_RK, -1).tolist() == [3, 5]
    one = Interval(np.array([0.1]), np.array([0.4]), np.array([0.02]))
    other = Interval(np.array([-0.1]), np.array([0.3]), np.array([0.2]))
    both = narrower(one, other)
    assert (both.low_K[0], both.high_K[0], both.p_K[0]) == (0.1, 0.3, 0.02)


def test_columns_in_blocks_are_the_columns_at_once():
    values_PK = np.random.default_rng(0).random((9, 7))
    widths = []

    def work(columns):
        widths.append(values_PK[:, columns].shape[1])
        return gaffke(
            values_PK[:, columns], (0, 1), Resampling(confidence=0.9, resamples=99, seed=3)
        )

    parts, whole = in_columns(work, 7, 3), work(slice(None))
    assert widths == [3, 3, 1, 7]
    np.testing.assert_allclose(parts.low_K, whole.low_K, rtol=1e-12)
    np.testing.assert_allclose(parts.high_K, whole.high_K, rtol=1e-12)


KS = (1, 8, 64)


def drawn(p_P, n, generator):
    ids = tuple(f"p{i}" for i in range(len(p_P)))
    return Counts(ids, np.full(len(p_P), n), generator.binomial(n, p_P))


def even(generator, problems):
    return generator.beta(1.0, 1.0, problems)


def test_a_band_contains_its_mean_narrows_with_confidence_and_has_a_seed():
    # pass@2: (4,1) -> 1/2, (4,2) -> 1 - 1/6 = 5/6; the other seed (4,0) -> 0, (4,4) -> 1.
    one = Counts(("a", "b"), [4, 4], [1, 2])
    two = Counts(("b", "a"), [4, 4], [4, 0])
    assert curve(one, (2,)).mean_K == pytest.approx([2 / 3], abs=1e-15)
    assert curve([one, two], (2,)).mean_K == pytest.approx([7 / 12], abs=1e-15)
    counts = drawn(even(np.random.default_rng(3), 40), 64, np.random.default_rng(4))
    wide, narrow = curve(counts, (1, 8)), curve(counts, (1, 8), Resampling(confidence=0.5))
    assert (wide.low_K < narrow.low_K).all()
    assert (narrow.low_K < narrow.mean_K).all()
    assert (narrow.mean_K < narrow.high_K).all()
    assert (narrow.high_K < wide.high_K).all()
    expected_K = pass_at_k(64, counts.c_P, (1, 8)).mean(axis=0)
    np.testing.assert_allclose(wide.mean_K, expected_K, rtol=1e-14)
    counts = drawn(even(np.random.default_rng(3), 40), 64, np.random.default_rng(4))
    assert curve(counts, KS).high_K.tolist() == curve(counts, KS).high_K.tolist()
    assert (
        curve(counts, KS).high_K.tolist() != curve(counts, KS, Resampling(seed=1)).high_K.tolist()
    )
    assert curve(counts, KS).at(8)[0] == curve(counts, KS).mean_K[1]
    with pytest.raises(MetricError, match="no k = 3"):
        curve(counts, KS).at(3)


@pytest.mark.parametrize("block", [None, 333])
def test_resampled_means_vary_as_the_unbiased_variance_says(monkeypatch, block):
    if block:
        monkeypatch.setattr("sage_cli.metrics.intervals.BLOCK", block)
    values_PK = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.5], [0.25, 0.5]])
    means_RK = resampled_means(values_PK, Resampling(resamples=200_000, seed=1))
    assert means_RK.shape == (200_000, 2)
    np.testing.assert_allclose(means_RK.mean(axis=0), values_PK.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(means_RK.var(axis=0), values_PK.var(axis=0, ddof=1) / 4, rtol=0.02)


def test_a_band_where_all_are_alike_and_of_one_problem():
    # 60 problems never solved: the population mean m obeys (1 - m)^60 >= 0.025.
    ids = tuple(map(str, range(60)))
    none = curve(Counts(ids, [8] * 60, [0] * 60), (1, 8))
    assert none.low_K.tolist() == [0, 0]
    np.testing.assert_allclose((1 - none.high_K) ** 60, 0.025, rtol=1e-12)
    everything = curve(Counts(ids, [8] * 60, [8] * 60), (1, 8))
    assert everything.high_K.tolist() == [1, 1]
    np.testing.assert_allclose(everything.low_K, 1 - none.high_K, rtol=1e-12)
    lone = curve(Counts(("a",), [8], [3]), (1,))
    assert lone.mean_K.tolist() == [3 / 8]
    assert np.isnan([*lone.low_K, *lone.high_K]).all()
    with pytest.raises(MetricError, match="no problem"):
        curve(Counts((), [], []), (1,))
