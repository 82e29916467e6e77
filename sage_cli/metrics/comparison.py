"""Two models, or two methods over their training seeds: the difference of their pass@k.

Also the problems that one gained or lost against the other, beyond the effect of sampling. The
random numbers of sample i of a problem are a hash of evaluation seed, problem and i alone, so
policies that were sampled with the same seeds share them, and their samples i are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Literal

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import STATISTICS, Counts, Evaluations, Statistic, each_seed, pooled
from sage_cli.metrics.error_sources import Arms, SideRuns, by_run, error_over
from sage_cli.metrics.estimators import BoolArray, FloatArray, IntArray
from sage_cli.metrics.intervals import (
    USUAL,
    Curve,
    Interval,
    Resampling,
    clip_interval,
    curve,
    fair_binomial,
    gaffke,
    holm,
    hypergeometric,
    narrower,
    pass_matrix,
    resampled_means,
    studentised,
    wider,
)


@dataclass(frozen=True, eq=False)
class Pairing:
    """Training seeds that both sides have, and how alike these make both sides, shape (K,).

    `left_out` names the runs without a partner, which the difference doesn't use. `correlation_K`
    is that of the runs' mean pass@k; NaN for two seeds, where it can only be -1 or 1.
    """

    seeds: tuple[int, ...]
    left_out: tuple[str, ...]
    correlation_K: FloatArray


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k minus B's at each k, its interval, and the p-value of "no difference".

    p is the smallest level whose interval excludes 0. `runs` are the numbers of training seeds of A
    and B: (1, 1) is about these two models, more is about the methods that trained them. `safe` is
    the interval that holds whatever the differences are (Gaffke's bounds alone); None where
    training seeds are random too. `pairing` is None where runs aren't paired by their seed,
    `clusters` where `resampling` draws problems one by one.
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
    pairing: Pairing | None = None
    clusters: int | None = None
    resampling: Resampling = USUAL

    @property
    def two_seeds(self) -> bool:
        """True where a side's seeds are random, and there are just two of them.

        One degree of freedom bears no p-value far below .05: it rests on the normal distribution of
        the seeds' effects, of which two say nothing.
        """
        return 2 in self.runs

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
    """Return A − B, problem by problem; interval and p-value are about the population of problems.

    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    units_XK = resampling.drawn_units(gap_PK, each_seed(a)[0].problem_ids)
    interval, safe = gap_intervals(units_XK, resampling)
    return Difference(
        tuple(map(int, ks)),
        gap_PK.mean(axis=0),
        interval.low_K,
        interval.high_K,
        interval.p_K,
        resampling.confidence,
        problems=len(gap_PK),
        safe=safe,
        clusters=_clusters_of(units_XK, resampling),
        resampling=resampling,
    )


def _clusters_of(units_XK: FloatArray, resampling: Resampling) -> int | None:
    return None if resampling.clusters is None else units_XK.shape[-2]


def paired_gaps(a: Evaluations, b: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k of A minus that of B per problem, shape (P, K), in the order of the problems' ids."""
    ids = each_seed(a)[0].problem_ids
    return pass_matrix(a, ks) - pass_matrix([seed.ordered(ids) for seed in each_seed(b)], ks)


def gap_intervals(gap_PK: FloatArray, resampling: Resampling) -> tuple[Interval, Interval | None]:
    """The intervals of the mean differences that are reported, and the safe ones.

    The safe ones are Gaffke's bounds, which hold whatever the differences are. They allow for
    unseen differences of -1 and 1, so they are twice as wide as needed where many problems differ
    by a little. Bootstrap-t is right there, and has no end where few problems differ. The reported
    intervals are the part that both share. NaN for one problem. Clusters, whose values have no
    bounds, have bootstrap-t alone, within -1 and 1.
    """
    if resampling.clusters is not None:
        return clip_interval(studentised(gap_PK, resampling), (-1, 1)), None
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
    paired: bool = False,
    arms: Arms | None = None,
) -> Difference:
    """A minus B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    With `paired`, run i of both sides has one training seed. The interval is Howe's, with the
    sources of `error_over`, within -1 and 1; `arms` are those over which a suite pools the seeds'
    variance. Where the runs of one side, or the gaps of pairs, are all that varies, the interval
    contains that of the models at hand, which is wider where few problems differ. Where no variance
    is seen, the interval of the mean gaps over problems takes its place.

    Raises MetricError where neither side has two runs, and for fewer than two problems.
    """
    if max(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "one run of either side is a comparison of two models, not of methods",
            "give more runs per side, A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("a single problem says nothing about other problems")
    a_IPK, b_IPK = (resampling.drawn_units(by_run(runs, ids, ks), ids) for runs in (a_runs, b_runs))
    gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
    mean_K = gap_PK.mean(axis=0)
    sources = error_over([(a_IPK, b_IPK)], paired=paired, arms=arms)
    # an error of 0 occurs where all runs agree exactly, for example at k = n on few problems: an
    # interval of width 0 would be a lie
    reach_K, seen_K = sources.reach(1 - resampling.confidence), sources.error > 0
    low_K, high_K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    interval = Interval(low_K, high_K, sources.p(mean_K))
    # an interval over seeds alone would be too narrow where few problems differ
    one_side_varies = paired or min(len(a_runs), len(b_runs)) < 2
    if one_side_varies or not seen_K.all():
        models = gap_interval(gap_PK, resampling)
        both = wider(interval, models) if one_side_varies else interval
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
        clusters=_clusters_of(gap_PK, resampling),
        resampling=resampling,
    )


ROUNDING = 1e-12
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
    gap_PK = resampling.drawn_units(paired_gaps(a, b, ks), each_seed(a)[0].problem_ids)
    gap_K = gap_PK.mean(axis=0)
    differing = np.flatnonzero(np.abs(gap_K) > ROUNDING)
    if not differing.size or min(gap_PK.shape) < 2:
        return Crossing("", np.nan, np.nan, np.nan, np.nan, resampling.confidence)
    # the side that leads at the smallest k at which they differ; everything after is written as if
    # that were A
    sign = float(np.sign(gap_K[differing[0]]))
    # all ks of a resample come from the same problems, so that a resampled curve is a curve
    means_RK = resampled_means(gap_PK, resampling)
    crossings_R = first_below_zero(sign * means_RK, ks)
    k = float(first_below_zero(sign * gap_K[None, :], ks)[0])
    tail = (1 - resampling.confidence) / 2
    # order statistics, not interpolated: between a number and "never" there is nothing
    low, high = map(float, np.quantile(crossings_R, [tail, 1 - tail], method="inverted_cdf"))
    established = bool(np.isfinite([low, k, high]).all()) and ks[0] < k < ks[-1]
    if established:
        # two tests on the same problems, the lead before and after: each must exclude 0 by itself,
        # since both are claimed
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
    below_RK = gap_RK < -ROUNDING
    k_R = np.where(below_RK.any(axis=1), -np.inf, np.inf)
    rows = np.flatnonzero(below_RK.any(axis=1) & ~below_RK[:, 0])
    first = below_RK[rows].argmax(axis=1)
    # a gap between -ROUNDING and 0 counts as not yet below: as 0, so that the interpolation stays
    # between the two ks
    before, after = np.maximum(gap_RK[rows, first - 1], 0), gap_RK[rows, first]
    log_k = np.log2(np.asarray(ks, float))
    part = before / (before - after)
    k_R[rows] = 2 ** (log_k[first - 1] + part * (log_k[first] - log_k[first - 1]))
    return k_R


About = Literal["models", "methods"]
"""The subject of a difference: the models at hand, or the methods that train such."""


@dataclass(frozen=True)
class TrainingSeed:
    """What a training run began with; equal ones drew the same rows in the same order.

    `origin` identifies the weights of the initial policy and the rows.
    """

    number: int
    origin: str
    run: str = field(compare=False)


@dataclass(frozen=True)
class Side:
    """One model, or a method's models with different training seeds.

    `runs` holds for each model its counts, one for each evaluation seed. A single model that is a
    `base` is meant itself; any other single model is one training of a method. `seeds` has for each
    run what it began with, as far as that is known.
    """

    label: str
    runs: tuple[Sequence[Counts], ...]
    base: bool = False
    seeds: tuple[TrainingSeed | None, ...] = ()

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
    """Side a minus side b, at the ks of a curve; `shown` are those that a table is to show.

    Crossing and support are those of two models, None where a side has several.
    """

    a: Side
    b: Side
    curves: tuple[Curve, Curve]
    difference: Difference
    crossing: Crossing | None
    support: Support | None
    shown: tuple[int, ...]

    @property
    def statistic(self) -> Statistic:
        """What the sides are compared by: that of their counts."""
        return self.a.counts[0].statistic


def pair_sides(a: Side, b: Side) -> tuple[Side, Side, tuple[str, ...]] | None:
    """Return the sides with the runs of their common seeds, in one order, and who is left out.

    None where fewer than two seeds are common, or a side has one of them twice: which of both runs
    would be the partner is not a question that results may answer.
    """
    known = [[seed for seed in side.seeds if seed is not None] for side in (a, b)]
    if any(count > 1 for seeds in known for count in Counter(seeds).values()):
        return None
    common = [seed for seed in known[0] if seed in known[1]]
    if len(common) < 2:
        return None
    left_out = tuple(seed.run for seeds in known for seed in seeds if seed not in common)
    return _with_seeds(a, common), _with_seeds(b, common), left_out


def _with_seeds(side: Side, seeds: Sequence[TrainingSeed]) -> Side:
    """Return the runs of these seeds alone, in their order."""
    places = [side.seeds.index(seed) for seed in seeds]
    runs = tuple(side.runs[place] for place in places)
    return replace(side, runs=runs, seeds=tuple(side.seeds[place] for place in places))


def difference_of_sides(
    a: Side,
    b: Side,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    unpaired: bool = False,
    arms: Sequence[Side] | None = None,
) -> tuple[Side, Side, Difference]:
    """Return A minus B with the sides as they were compared: paired by training seed if possible.

    `unpaired` keeps all runs of both sides. `arms` are a suite's sides, over which the variance
    between seeds is pooled where they have the seeds of this comparison.
    """
    if len(a.runs) == len(b.runs) == 1:
        return a, b, paired_difference(a.counts, b.counts, ks, resampling)
    pairs = None if unpaired else pair_sides(a, b)
    left_out: tuple[str, ...] = ()
    if pairs is not None:
        a, b, left_out = pairs
    pool = arms_with_seeds(arms or (), a, b, paired=pairs is not None)
    ids = a.runs[0][0].problem_ids
    pooled_arms = None if pool is None else [[by_run(side.runs, ids, ks)] for side in pool]
    difference = method_difference(
        a.runs, b.runs, ks, resampling, paired=pairs is not None, arms=pooled_arms
    )
    if pairs is not None:
        seeds = tuple(seed.number for seed in a.seeds if seed is not None)
        means = [by_run(side.runs, ids, ks).mean(axis=1) for side in (a, b)]
        pairing = Pairing(seeds, left_out, column_correlations(*means))
        difference = replace(difference, pairing=pairing)
    return a, b, difference


def arms_with_seeds(arms: Sequence[Side], a: Side, b: Side, *, paired: bool) -> list[Side] | None:
    """Return those of `arms` that have the compared seeds, in their order; None if none is pooled.

    Pooled are gaps between paired arms, or an arm's seeds against a fixed model. Two sides with
    seeds of their own have a source of error each.
    """
    several = [side for side in (a, b) if len(side.runs) > 1]
    if not arms or not (paired or len(several) == 1):
        return None
    wanted = [seed for seed in several[0].seeds if seed is not None]
    if len(wanted) < len(several[0].runs):
        return None
    chosen = [_with_seeds(arm, wanted) for arm in arms if {*wanted} <= {*arm.seeds}]
    return chosen if len(chosen) > len(several) else None


def column_correlations(a_IK: FloatArray, b_IK: FloatArray) -> FloatArray:
    """Return Pearson's correlation down the columns, (K,); NaN for two rows or no variance."""
    a_IK, b_IK = a_IK - a_IK.mean(axis=0), b_IK - b_IK.mean(axis=0)
    most_K = np.sqrt((a_IK**2).sum(axis=0) * (b_IK**2).sum(axis=0))
    known_K = (most_K > ROUNDING) & (len(a_IK) > 2)
    return np.asarray(
        np.divide(
            (a_IK * b_IK).sum(axis=0), most_K, out=np.full_like(most_K, np.nan), where=known_K
        )
    )


def compare_sides(
    a: Side,
    b: Side,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    unpaired: bool = False,
) -> Comparison:
    """Compare two models (one each), or methods (several models a side), on the same problems.

    Methods are paired by training seed where both have the same ones, unless `unpaired`.
    Everything is computed at all ks of a curve; `ks` are those to show.
    """
    shown = tuple(map(int, ks))
    fewest = [int(counts.n_P.min()) for counts in (*a.counts, *b.counts) if len(counts)]
    statistic = a.counts[0].statistic if a.counts else STATISTICS["pass"]
    ks = statistic.curve_ks(min(fewest, default=0), shown)
    crossing, support = None, None
    a, b, difference = difference_of_sides(a, b, ks, resampling, unpaired=unpaired)
    if difference.runs == (1, 1):
        crossing = find_crossing(a.counts, b.counts, ks, resampling)
        support = compare_support(
            pooled(b.counts), pooled(a.counts), confidence=resampling.confidence
        )
    curves = curve(a.counts, ks, resampling), curve(b.counts, ks, resampling)
    return Comparison(a, b, curves, difference, crossing, support, shown)


def paired_grades(a: Counts, b: Counts) -> tuple[BoolArray, BoolArray] | None:
    """The grades of both, shape (P, N) each, column by column on the same random numbers.

    None where the grades of a side's samples aren't known, or seeds or numbers of samples differ.
    An unknown seed equals no other. Both must have the same problems in the same order.
    """
    if a.grades is None or b.grades is None or a.grades.seeds != b.grades.seeds:
        return None
    if None in a.grades.seeds:
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
    if a.grades is None or b.grades is None or None in (*a.grades.seeds, *b.grades.seeds):
        return False
    return a.grades.seeds != b.grades.seeds


def null_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem the base's possible counts of correct samples and their probabilities.

    The correct samples of both are given. Paired grades of one model could as well be swapped, so
    the base has each correct one of the pairs that differ with probability 1/2 (McNemar's test).
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
    correct ones as it did, or fewer, is the one-sided p-value of McNemar's or Fisher's exact test;
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
        # problems that were not gained are tests, too, with p = 1: the family is all problems,
        # which was fixed before the data were seen
        surely_gained=ids(gain_P & (holm(np.where(gain_P, fewer, 1.0)) <= level)),
        surely_lost=ids(loss_P & (holm(np.where(loss_P, more, 1.0)) <= level)),
        # the success probability p of which n samples miss all with probability 1 - confidence: (1
        # - p)^n = level
        visible=float(1 - level ** (1 / min(base.n_P.min(), run.n_P.min()))),
        confidence=confidence,
        delta=delta,
        paired=paired_grades(base, run) is not None,
    )


def _above(c: IntArray, n: IntArray, delta: float) -> BoolArray:
    """True where the share of correct samples exceeds `delta`, whatever is rounded."""
    above: BoolArray = c > delta * n + 1e-9
    return above
