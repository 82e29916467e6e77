"""Two models, or two methods over their training seeds: the difference of their pass@k.

Also the problems that one gained or lost against the other, beyond the effect of sampling. The
random numbers of sample i of a problem are a hash of evaluation seed, problem and i alone, so
policies that were sampled with the same seeds share them, and their samples i are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import (
    BoolArray,
    Counts,
    Evaluations,
    FloatArray,
    IntArray,
    curve_ks,
    each_seed,
    pooled,
)
from sage_cli.metrics.intervals import (
    USUAL,
    Curve,
    Interval,
    Resampling,
    curve,
    fair_binomial,
    freedom_of,
    gaffke,
    holm,
    hypergeometric,
    narrower,
    pass_matrix,
    pooled_variance,
    resampled_means,
    studentised,
    two_sided_p,
    two_sided_reach,
    wider,
)

SideRuns = Sequence[Sequence[Counts]]
"""One side: for each training seed its counts, one for each evaluation seed."""

Pool = Sequence[Sequence[FloatArray]]
"""Methods whose seeds vary equally: for each benchmark its runs, shape (I, P, K)."""

Part = tuple[FloatArray, FloatArray, int]
"""A benchmark's problems: their variance of the mean, the noise in it, and their number."""

LEVEL = 0.05
"""The two-sided level at which `_fixed_side` is Howe's interval."""


def by_run(runs: SideRuns, ids: Sequence[str], ks: Sequence[int]) -> FloatArray:
    """pass@k of the problems `ids` in each run, its evaluation seeds averaged, shape (I, P, K)."""
    return np.stack([pass_matrix([seed.ordered(ids) for seed in run], ks) for run in runs])


def residual(sides: Sequence[FloatArray]) -> FloatArray:
    """The variance of a problem's value in one run around the run's and the problem's mean, pooled.

    Each side has the shape (I, P, K). 0 where every side has one run, or one problem.
    """
    squares_K, freedom = np.zeros(sides[0].shape[2]), 0
    for side_IPK in sides:
        runs, P, _ = side_IPK.shape
        rest_IPK = side_IPK - side_IPK.mean(axis=1, keepdims=True)
        rest_IPK -= rest_IPK.mean(axis=0)
        squares_K += (rest_IPK**2).sum(axis=(0, 1))
        freedom += (runs - 1) * (P - 1)
    return squares_K / max(freedom, 1)


def error_over(
    benchmarks: Sequence[tuple[FloatArray, FloatArray]], pool: Pool | None = None
) -> tuple[FloatArray, FloatArray]:
    """Standard error of A's mean less B's over benchmarks, shape (K,), and its degrees of freedom.

    Each benchmark has the shapes (I, P, K) of both sides, the same runs I on all; the mean over
    benchmarks is unweighted. Runs differ by their means over all benchmarks; each benchmark adds
    the variance of its problems. The seeds' variance is pooled over the methods of `pool`, by
    default over both sides, which assumes that it is the same under all of them.

    A side with one run, as a base, is fixed. With the model y[i, p] = mean + seed[i] + problem[p]
    + noise[i, p] for A's T runs on P problems, and y[p] = mean + problem[p] + noise[p] for B:

        the mean gap has the variance  s_seed / T + s_noise / (T P) + (s_gap + s_noise_B) / P,

    where s_gap is the variance of the problems' true differences: the common part of A and B
    cancels. A's runs' means have the variance s_seed + s_noise / P (between runs), the problems'
    mean gaps s_gap + s_noise / T + s_noise_B, and the residual of A's runs is s_noise. Hence

        variance = between runs / T + between problems / P - residual / (T P)

    is unbiased. B's noise is in the problems' gaps alone, and nothing of B is between runs: it is
    `SeedNoise.error` with the share 1/T instead of 1/T_A + 1/T_B.
    """
    sides = list(zip(*benchmarks, strict=True))
    methods = [method for method in (pool or sides) if len(method[0]) > 1]
    share = sum(1 / len(side[0]) for side in sides if len(side[0]) > 1)
    freedom = sum(len(method[0]) - 1 for method in methods)
    means = [np.mean([runs_IPK.mean(axis=1) for runs_IPK in method], axis=0) for method in methods]
    weight = 1 / len(benchmarks) ** 2
    parts = []
    for (a_IPK, b_IPK), *runs in zip(benchmarks, *methods, strict=True):
        gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
        parts.append(_problems(gap_PK, residual(runs) * share, weight))
    fixed = any(len(side[0]) < 2 for side in sides)
    return (_fixed_side if fixed else _error)(pooled_variance(means) * share, parts, freedom)


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """The differences of a method's runs: of their means, and the rest; variances of shape (K,).

    `freedom` is the number of runs beyond the first of each method.
    """

    between_K: FloatArray
    residual_K: FloatArray
    freedom: int

    @classmethod
    def seen(cls, methods: Sequence[FloatArray]) -> SeedNoise:
        """Pooled over methods, each of shape (I, P, K); at least one has two runs."""
        return cls(
            pooled_variance([runs_IPK.mean(axis=1) for runs_IPK in methods]),
            residual(methods),
            sum(len(runs_IPK) - 1 for runs_IPK in methods),
        )

    def error(self, values_PK: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Standard error of the mean of `values_PK`, shape (K,), and its degrees of freedom.

        The values are a method's, averaged over T runs (`share` is 1/T), or the gaps of two
        (1/T_A + 1/T_B), problems crossed with the methods:

            variance = between runs + between problems - residual

        Between runs: the variance of the runs' means within a method times `share`: seeds, and
        the noise of sampling averaged over problems. Between problems: the variance of the values
        over P, which holds that noise once more, so the residual, the noise alone, is taken off.
        Never less than the variance between runs. Degrees of freedom after Satterthwaite (1946),
        https://doi.org/10.2307/3002019.
        """
        part = _problems(values_PK, self.residual_K * share, 1.0)
        return _error(self.between_K * share, [part], self.freedom)


def _problems(values_PK: FloatArray, residual_K: FloatArray, weight: float) -> Part:
    P = len(values_PK)
    return values_PK.var(axis=0, ddof=1) / P * weight, residual_K / P * weight, P


def _error(
    between_K: FloatArray, parts: Sequence[Part], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`SeedNoise.error` of the variance between runs and of each benchmark's problems."""
    variance_K, squares_K = between_K, between_K**2 / freedom
    for problems_K, residual_K, P in parts:
        extra_K = problems_K - residual_K
        # a component that is estimated below 0 is left out, with its degrees of freedom
        extra_squares_K = problems_K**2 / (P - 1) + residual_K**2 / (freedom * (P - 1))
        variance_K = variance_K + np.where(extra_K > 0, extra_K, 0)
        squares_K = squares_K + np.where(extra_K > 0, extra_squares_K, 0)
    freedom_K = np.divide(
        variance_K**2, squares_K, out=np.full_like(squares_K, float(freedom)), where=squares_K > 0
    )
    least = min(freedom, *(P - 1 for _, _, P in parts))
    return np.sqrt(variance_K), np.maximum(freedom_K, least)


def _fixed_side(
    between_K: FloatArray, parts: Sequence[Part], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`_error` where one side is fixed: the same variance, and Howe's interval.

    Few runs of a single side may carry nearly all of the variance. Satterthwaite's degrees of
    freedom are then too many exactly where these runs happen to agree: the interval covers .87
    with two runs and .91 with three. Howe (1974, J. Am. Stat. Assoc. 69, 789) adds the squares of
    the sources' own half-widths, each with its own t, which covers at least its level. The degrees
    of freedom are those that give Student's interval this width at `LEVEL`.
    """
    sources = [(between_K, freedom)]
    sources += [(np.maximum(problems_K - rest_K, 0), P - 1) for problems_K, rest_K, P in parts]
    variance_K = np.sum([source_K for source_K, _ in sources], axis=0)
    squares = [K * two_sided_reach(LEVEL, np.array(float(free))) ** 2 for K, free in sources]
    squares_K = np.sum(squares, axis=0)
    ratio_K = np.divide(
        squares_K, variance_K, out=np.full_like(squares_K, 2.0), where=variance_K > 0
    )
    return np.sqrt(variance_K), freedom_of(LEVEL, np.sqrt(ratio_K))


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k less B's at each k, its interval, and the p-value of "no difference".

    0 lies outside of the interval exactly where p is at most 1 - confidence. `runs` are the
    numbers of training seeds of A and B: (1, 1) is about these two models, more is about the
    methods that trained them. `safe` is the interval that holds whatever the differences are
    (Gaffke's bounds alone); None where training seeds are random too.
    """

    ks: tuple[int, ...]
    mean_K: FloatArray
    low_K: FloatArray
    high_K: FloatArray
    p_K: FloatArray
    confidence: float
    problems: int
    runs: tuple[int, int] = (1, 1)
    safe: Interval | None = None

    @property
    def fragile(self) -> BoolArray:
        """True at each k where the test finds a difference and the safe interval doesn't.

        Problems that lose nearly everything, so rare that none was sampled, could then undo it.
        """
        if self.safe is None:
            return np.zeros(len(self.ks), dtype=bool)
        level = 1 - self.confidence
        fragile_K: BoolArray = (self.p_K <= level) & (self.safe.p_K > level)
        return fragile_K


def paired_difference(
    a: Evaluations, b: Evaluations, ks: Sequence[int], resampling: Resampling = USUAL
) -> Difference:
    """A less B, problem by problem; interval and p-value are about the population of problems.

    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    interval, safe = gap_intervals(gap_PK, resampling)
    return Difference(
        tuple(map(int, ks)),
        gap_PK.mean(axis=0),
        interval.low_K,
        interval.high_K,
        interval.p_K,
        resampling.confidence,
        problems=len(gap_PK),
        safe=safe,
    )


def paired_gaps(a: Evaluations, b: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k of A less that of B per problem, shape (P, K), in the order of A's problems."""
    ids = each_seed(a)[0].problem_ids
    return pass_matrix(a, ks) - pass_matrix([seed.ordered(ids) for seed in each_seed(b)], ks)


def gap_intervals(gap_PK: FloatArray, resampling: Resampling) -> tuple[Interval, Interval]:
    """The intervals of the mean differences that are reported, and the safe ones.

    The safe ones are Gaffke's bounds, which hold whatever the differences are. They allow for
    unseen differences of -1 and 1, so they are twice as wide as needed where many problems differ
    by a little. Bootstrap-t is right there, and has no end where few problems differ. The reported
    intervals are the part that both share. NaN for one problem.
    """
    safe = gaffke(gap_PK, (-1, 1), resampling)
    if len(gap_PK) < 2:
        return safe, safe
    students = studentised(gap_PK, resampling)
    return narrower(safe, students), safe


def gap_interval(gap_PK: FloatArray, resampling: Resampling) -> Interval:
    """The first of `gap_intervals`."""
    return gap_intervals(gap_PK, resampling)[0]


def method_difference(
    a_runs: SideRuns,
    b_runs: SideRuns,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    pool: Pool | None = None,
) -> Difference:
    """A less B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    Student's t with the error of `error_over`, within -1 and 1; `pool` are the methods over which
    the seeds' variance is pooled (by default the two sides), each on this one benchmark. Against a
    fixed model the interval contains that of the models at hand, which is wider where few problems
    differ. Where no variance is seen, the interval of the mean gaps over problems takes its place.

    Raises MetricError where neither side has two runs, and for fewer than two problems.
    """
    if max(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "one run of either side is a comparison of two models, not of methods",
            "name more runs as A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("one problem alone says nothing about other problems")
    a_IPK, b_IPK = by_run(a_runs, ids, ks), by_run(b_runs, ids, ks)
    gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
    mean_K = gap_PK.mean(axis=0)
    error_K, freedom_K = error_over([(a_IPK, b_IPK)], pool)
    seen_K = error_K > 0
    reach_K = two_sided_reach(1 - resampling.confidence, freedom_K) * error_K
    p_K = two_sided_p(mean_K / np.where(seen_K, error_K, 1), freedom_K)
    low_K, high_K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    interval = Interval(low_K, high_K, p_K)
    # a t interval over seeds alone would be too narrow where few problems differ
    fixed = min(len(a_runs), len(b_runs)) < 2
    if fixed or not seen_K.all():
        models = gap_interval(gap_PK, resampling)
        both = wider(interval, models) if fixed else interval
        interval = Interval(*np.where(seen_K, astuple(both), astuple(models)))
    return Difference(
        tuple(map(int, ks)),
        mean_K,
        interval.low_K,
        interval.high_K,
        interval.p_K,
        resampling.confidence,
        problems=len(ids),
        runs=(len(a_runs), len(b_runs)),
    )


NOISE = 1e-12
"""Differences of two means that are smaller are rounding."""


@dataclass(frozen=True)
class Crossing:
    """The k from which the model that trails at the smallest k leads, with its interval.

    `leader` is the one that leads at the smallest k, "a" or "b" ("" where they never differ).
    `k` is NaN where the curves don't cross. `low` = -inf says "before the first k" and
    `high` = inf "after the last k or never". `share` of the resamples cross within the ks.

    Any two curves that are close cross somewhere by chance: `k` is an estimate and no finding
    unless `established`, which takes two finite ends, a leader that is ahead before the crossing
    and behind after it, each with `confidence` (the mean difference over log k on either side).
    A late crossing is seldom established, and then it is one that came out early: `k` is too low
    among the established ones where these are few, while the interval still covers.
    """

    leader: str
    k: float
    low: float
    high: float
    share: float
    confidence: float
    established: bool = False


def find_crossing(
    a: Evaluations, b: Evaluations, ks: Sequence[int], resampling: Resampling = USUAL
) -> Crossing:
    """Find the crossing, interpolated in log2 k; the interval resamples problems.

    NaN throughout for fewer than two ks or problems, and for curves that are equal at every k.
    """
    gap_PK = paired_gaps(a, b, ks)
    gap_K = gap_PK.mean(axis=0)
    differing = np.flatnonzero(np.abs(gap_K) > NOISE)
    if not differing.size or min(gap_PK.shape) < 2:
        return Crossing("", np.nan, np.nan, np.nan, np.nan, resampling.confidence)
    sign = float(np.sign(gap_K[differing[0]]))
    means_RK = resampled_means(gap_PK, resampling)
    crossings_R = first_below_zero(sign * means_RK, ks)
    k = float(first_below_zero(sign * gap_K[None, :], ks)[0])
    tail = (1 - resampling.confidence) / 2
    # order statistics, not interpolated: between a number and "never" there is nothing
    low, high = map(float, np.quantile(crossings_R, [tail, 1 - tail], method="inverted_cdf"))
    established = bool(np.isfinite([low, k, high]).all()) and ks[0] < k < ks[-1]
    if established:
        sides_P2 = sign * gap_PK @ _weights_before_and_after(k, ks)
        ends = gap_interval(sides_P2, resampling)
        established = bool(ends.low_K[0] > 0 > ends.high_K[1])
    leader, share = "a" if sign > 0 else "b", float(np.isfinite(crossings_R).mean())
    k = k if np.isfinite(k) else np.nan
    return Crossing(leader, k, low, high, share, resampling.confidence, established)


def _weights_before_and_after(crossing: float, ks: Sequence[int]) -> FloatArray:
    """Weights of the mean over log k before the crossing and after it, shape (K, 2)."""
    width_K = np.gradient(np.log2(np.asarray(ks, float)))
    before_K = np.asarray(ks) < crossing
    weight_K2 = np.stack([width_K * before_K, width_K * ~before_K], axis=1)
    return np.asarray(weight_K2 / weight_K2.sum(axis=0))


def first_below_zero(gap_RK: FloatArray, ks: Sequence[int]) -> FloatArray:
    """Per row, the k at which the gap first falls below 0: -inf at once, inf never."""
    below_RK = gap_RK < -NOISE
    k_R = np.where(below_RK.any(axis=1), -np.inf, np.inf)
    rows = np.flatnonzero(below_RK.any(axis=1) & ~below_RK[:, 0])
    first = below_RK[rows].argmax(axis=1)
    before, after = np.maximum(gap_RK[rows, first - 1], 0), gap_RK[rows, first]
    log_k = np.log2(np.asarray(ks, float))
    part = before / (before - after)
    k_R[rows] = 2 ** (log_k[first - 1] + part * (log_k[first] - log_k[first - 1]))
    return k_R


About = Literal["models", "methods"]
"""The subject of a difference: the models at hand, or the methods that train such."""


@dataclass(frozen=True)
class Side:
    """One model, or a method's models with different training seeds.

    `runs` holds for each model its counts, one for each evaluation seed. A single model that is a
    `base` is meant itself; any other single model is one training of a method.
    """

    label: str
    runs: tuple[Sequence[Counts], ...]
    base: bool = False

    @property
    def counts(self) -> list[Counts]:
        """The counts of all models and evaluation seeds."""
        return [seed for run in self.runs for seed in run]


def about(a: Side, b: Side) -> About:
    """Return "methods" if each side has several training seeds, or one has and the other is a base.

    A single training says nothing about its method: another seed gives another model.
    """
    several = [len(side.runs) > 1 for side in (a, b)]
    known = all(many or side.base for many, side in zip(several, (a, b), strict=True))
    return "methods" if any(several) and known else "models"


@dataclass(frozen=True)
class Comparison:
    """Side a less side b, at the ks of a curve; `shown` are those that a table is to show.

    Crossing and support are those of two models, None where a side has several.
    """

    a: Side
    b: Side
    curves: tuple[Curve, Curve]
    difference: Difference
    crossing: Crossing | None
    support: Support | None
    shown: tuple[int, ...]


def compare_sides(
    a: Side, b: Side, ks: Sequence[int], resampling: Resampling = USUAL
) -> Comparison:
    """Compare two models (one each), or methods (several models a side), on the same problems.

    Everything is computed at all ks of a curve; `ks` are those to show.
    """
    shown = tuple(map(int, ks))
    fewest = [int(counts.n_P.min()) for counts in (*a.counts, *b.counts) if len(counts)]
    ks = curve_ks(min(fewest, default=0), shown)
    crossing, support = None, None
    if len(a.runs) == len(b.runs) == 1:
        difference = paired_difference(a.counts, b.counts, ks, resampling)
        crossing = find_crossing(a.counts, b.counts, ks, resampling)
        support = compare_support(
            pooled(b.counts), pooled(a.counts), confidence=resampling.confidence
        )
    else:
        difference = method_difference(a.runs, b.runs, ks, resampling)
    curves = curve(a.counts, ks, resampling), curve(b.counts, ks, resampling)
    return Comparison(a, b, curves, difference, crossing, support, shown)


def paired_grades(a: Counts, b: Counts) -> tuple[BoolArray, BoolArray] | None:
    """The grades of both, shape (P, N) each, column by column on the same random numbers.

    None where the grades of a side's samples aren't known, or seeds or numbers of samples differ.
    Both must have the same problems in the same order.
    """
    if a.grades is None or b.grades is None or a.grades.seeds != b.grades.seeds:
        return None
    if a.grades.right_PN.shape != b.grades.right_PN.shape:
        return None
    return a.grades.right_PN, b.grades.right_PN


def grade_correlation(a: Counts, b: Counts) -> float:
    """The correlation of paired grades within a problem, over all problems.

    The sum of the problems' covariances over that of the products of their deviations: problems
    that one side solves always or never don't count. NaN where grades aren't paired, or none
    varies on both sides.
    """
    pairs = paired_grades(a, b.ordered(a.problem_ids))
    if pairs is None:
        return float("nan")
    a_PN, b_PN = pairs
    a_P, b_P = a_PN.mean(axis=1), b_PN.mean(axis=1)
    covariance = float(((a_PN & b_PN).mean(axis=1) - a_P * b_P).sum())
    most = float(np.sqrt(a_P * (1 - a_P) * b_P * (1 - b_P)).sum())
    return covariance / most if most > 0 else float("nan")


def different_seeds(a: Counts, b: Counts) -> bool:
    """Return True if both sides' evaluation seeds are known and they differ."""
    return a.grades is not None and b.grades is not None and a.grades.seeds != b.grades.seeds


def null_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem the base's possible counts of right samples and their probabilities.

    The right samples of both are given. Paired grades of one model could as well be swapped, so
    the base has each right one of the pairs that differ with probability 1/2 (McNemar's test).
    Unpaired samples are independent: the base's n are drawn from all samples of the problem
    (hypergeometric, Fisher's test). Both must have the same problems in the same order.
    """
    pairs = paired_grades(base, run)
    if pairs is not None:
        base_PN, run_PN = pairs
        both_P, differing_P = (base_PN & run_PN).sum(axis=1), (base_PN ^ run_PN).sum(axis=1)
        for both, differing in zip(both_P.tolist(), differing_P.tolist(), strict=True):
            count_C, chance_C = fair_binomial(differing)
            yield both + count_C, chance_C
        return
    columns = (base.n_P, base.c_P, run.n_P, run.c_P)
    for n, c, run_n, run_c in zip(*(column.tolist() for column in columns), strict=True):
        yield hypergeometric(n, run_n, c + run_c)


@dataclass(frozen=True)
class Support:
    """Problems by whether the base and the run solve more than a share `delta`, after Def. 4.1.

    `gained_by_chance` and `lost_by_chance` are the numbers to expect if nothing had changed.
    `surely_gained` and `surely_lost` hold with the asked confidence, over all problems together.
    `visible` is the success probability that the samples would have shown with that confidence:
    an unsolved problem may still lie below it. `paired` says that grades were compared sample by
    sample, because both sides share their random numbers.
    """

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    kept: tuple[str, ...]
    absent: tuple[str, ...]
    gained_by_chance: float
    lost_by_chance: float
    surely_gained: tuple[str, ...]
    surely_lost: tuple[str, ...]
    visible: float
    confidence: float
    delta: float = 0.0
    paired: bool = False


def compare_support(
    base: Counts, run: Counts, *, confidence: float = 0.95, delta: float = 0.0
) -> Support:
    """Support gained and lost by `run` against `base`, on the same problems.

    The null hypothesis is `null_counts`. The probability that the base got as few
    right ones as it did, or fewer, is the one-sided p-value of McNemar's or Fisher's exact test;
    Holm's procedure over all problems makes the sure ones hold together.
    """
    run = run.ordered(base.problem_ids)
    base_P, run_P = _above(base.c_P, base.n_P, delta), _above(run.c_P, run.n_P, delta)
    gain_P, loss_P = ~base_P & run_P, base_P & ~run_P
    gained, lost = np.zeros(len(base)), np.zeros(len(base))
    fewer, more = np.ones(len(base)), np.ones(len(base))
    for problem, (count_C, chance_C) in enumerate(null_counts(base, run)):
        run_C = base.c_P[problem] + run.c_P[problem] - count_C
        in_base_C = _above(count_C, base.n_P[problem], delta)
        in_run_C = _above(run_C, run.n_P[problem], delta)
        gained[problem] = chance_C[~in_base_C & in_run_C].sum()
        lost[problem] = chance_C[in_base_C & ~in_run_C].sum()
        fewer[problem] = chance_C[count_C <= base.c_P[problem]].sum()
        more[problem] = chance_C[count_C >= base.c_P[problem]].sum()
    level = 1 - confidence

    def ids(mask_P: BoolArray) -> tuple[str, ...]:
        return tuple(base.problem_ids[row] for row in np.flatnonzero(mask_P))

    return Support(
        gained=ids(gain_P),
        lost=ids(loss_P),
        kept=ids(base_P & run_P),
        absent=ids(~base_P & ~run_P),
        gained_by_chance=float(gained.sum()),
        lost_by_chance=float(lost.sum()),
        surely_gained=ids(gain_P & (holm(np.where(gain_P, fewer, 1.0)) <= level)),
        surely_lost=ids(loss_P & (holm(np.where(loss_P, more, 1.0)) <= level)),
        visible=float(1 - level ** (1 / min(base.n_P.min(), run.n_P.min()))),
        confidence=confidence,
        delta=delta,
        paired=paired_grades(base, run) is not None,
    )


def _above(c: IntArray, n: IntArray, delta: float) -> BoolArray:
    """True where the share of right samples exceeds `delta`, free of rounding where they agree."""
    above: BoolArray = c > delta * n + 1e-9
    return above
