"""Estimators of single problems from counts and votes: pass@k, pass^k, G-Pass@k, maj@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sage_cli.errors import MetricError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
EVERY_K_UP_TO = 256
"""Beyond, a curve is so smooth in log k that the powers of two tell it."""
Votes = Mapping[str | None, int]
"""How often each final answer was given to a problem: RIGHT, wrong ones by text, None without."""
RIGHT = "right"
"""The class of all answers that were graded correct, in any notation."""


def whole_numbers(values: Any, name: str) -> IntArray:
    """`values` as integers; fractions are a MetricError."""
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iub":
        finite = given.dtype.kind == "f" and bool(np.isfinite(given).all())
        if not finite or not np.array_equal(given, np.trunc(given)):
            raise MetricError(f"{name} must be whole numbers, not {values!r}")
    return given.astype(np.int64)


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    """The probability that at least one of k samples, without replacement from n, is correct.

    `n` samples of which `c` are correct: numbers or arrays that broadcast together, one entry per
    problem. `k`: a number or a 1-d array. The result has the shape of n and c, followed by that
    of k; numbers all around give a float. Raises MetricError unless 0 <= c <= n and
    1 <= k <= n for every problem.

    Relative error below 1e-12 for n up to 10,000: the probabilities that the i-th sample is the
    first correct one are added up, without the cancellation of 1 - product or factorials to
    overflow.
    """
    n_, c_, k_ = whole_numbers(n, "n"), whole_numbers(c, "c"), whole_numbers(k, "k")
    try:
        n_, c_ = np.broadcast_arrays(n_, c_)
    except ValueError:
        raise MetricError(f"n has shape {n_.shape} and c has shape {c_.shape}") from None
    _check(n_, c_, k_)
    shape = n_.shape + k_.shape
    if 0 in shape:
        return np.zeros(shape)
    # problems that share (n, c) share their curve, and few pairs differ: with n = 256, at most 257
    # a pair (n, c) as one integer, which numpy sorts quickly
    stride = int(n_.max()) + 1
    pairs_U, place_P = np.unique(n_.ravel() * stride + c_.ravel(), return_inverse=True)
    ks_K, order_K = np.unique(k_.ravel(), return_inverse=True)
    pass_KU = _curves(pairs_U // stride, pairs_U % stride, ks_K)
    pass_UK = np.ascontiguousarray(pass_KU[order_K.ravel()].T)
    result = pass_UK.take(place_P.ravel(), axis=0).reshape(shape)
    return float(result) if shape == () else result


def powers_up_to(n: int) -> tuple[int, ...]:
    """Return the powers of two from 1 to n: the ks at which figures are recorded and compared."""
    return tuple(1 << bit for bit in range(n.bit_length()))


def curve_ks(n: int, asked: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the ks of a curve over n samples: all up to 256, powers of two, those asked for.

    A curve is drawn and a crossing found on these, whichever ks a table is to show: a straight
    line from k = 1 to 256 is not a curve, and crosses another one elsewhere.
    """
    return tuple(sorted({*range(1, min(n, EVERY_K_UP_TO) + 1), *powers_up_to(n), *asked}))


def effective_size(log_weight_N: FloatArray) -> float:
    """Return (sum w)^2 / sum w^2: how many samples of equal weight say as much; 0 for none."""
    if not len(log_weight_N):
        return 0.0
    weight_N = np.exp(log_weight_N - log_weight_N.max())
    return float(weight_N.sum() ** 2 / (weight_N**2).sum())


def reweighted_pass_at_k(
    log_weight_N: FloatArray, right_N: BoolArray, ks: Sequence[int]
) -> FloatArray:
    """Return pass@k (K,) of a policy that holds each sampled text for exp(log weight) as likely.

    Weights are normalised over the samples. The plug-in 1 - (1 - q)^k, q the weighted share of
    correct samples, is too low by the curve's bend and errs by the normalisation. The jackknife
    takes off both to the order of 1/n; with equal weights this is `pass_at_k`, without bias.
    """
    if not len(log_weight_N) or np.ptp(log_weight_N) == 0:
        return np.asarray(pass_at_k(len(right_N), int(right_N.sum()), list(ks)))
    n, weight_N = len(right_N), np.exp(log_weight_N - log_weight_N.max())
    right, rest_N = float((weight_N * right_N).sum()), weight_N.sum() - weight_N
    share = right / weight_N.sum()
    without_N = np.divide(right - weight_N * right_N, rest_N, where=rest_N > 0, out=right_N * share)
    plug_in_KN = 1 - (1 - np.append(without_N, share).clip(0, 1)) ** np.array(ks)[:, None]
    # jackknife: n times the estimate minus n - 1 times the mean of those that leave out one sample;
    # the bias of order 1/n cancels
    unbiased_K = n * plug_in_KN[:, -1] - (n - 1) * plug_in_KN[:, :-1].mean(axis=1)
    clipped_K: FloatArray = unbiased_K.clip(0, 1)
    return clipped_K


def _curves(n_U: IntArray, c_U: IntArray, ks_K: IntArray) -> FloatArray:
    """pass@k for ascending ks: one more sample adds (1 - pass) times its chance to be correct.

    Sample k is correct with chance c / (n - k + 1) when none was before. When only correct samples
    are left that chance is 1 and pass is 0 or at least 1/2, so that 1 - pass has no rounding error,
    pass becomes exactly 1 and stays there. Memory: a few rows, however large k is.
    """
    pass_KU = np.empty((len(ks_K), len(n_U)))
    right_U, left_U = c_U.astype(float), n_U.astype(float)
    pass_U, gain_U, chance_U = np.zeros(len(n_U)), np.empty(len(n_U)), np.empty(len(n_U))
    row = 0
    for k in range(1, int(ks_K[-1]) + 1):
        # in place: a curve to k = 10,000 has as many steps, and each would allocate three arrays
        np.divide(right_U, left_U, out=chance_U)
        np.subtract(1.0, pass_U, out=gain_U)
        gain_U *= chance_U
        pass_U += gain_U
        left_U -= 1
        if k == ks_K[row]:
            pass_KU[row] = pass_U
            row += 1
    return pass_KU


def _check(n_: IntArray, c_: IntArray, k_: IntArray) -> None:
    if k_.ndim > 1:
        raise MetricError(f"k must be a number or a 1-d array, not of shape {k_.shape}")
    if not n_.size or not k_.size:
        return
    if (bad := (n_ < 0) | (c_ < 0) | (c_ > n_)).any():
        raise MetricError(f"c must be in 0..n; got n = {n_[bad][0]}, c = {c_[bad][0]}")
    if k_.min() < 1:
        raise MetricError(f"k must be at least 1, not {k_.min()}")
    if k_.max() > n_.min():
        raise MetricError(
            f"pass@{k_.max()} is undefined for a problem with {n_.min()} samples (k > n)",
            f"use k up to {n_.min()}, or sample at least {k_.max()} per problem",
        )


def all_right_at_k(n_P: IntArray, c_P: IntArray, ks: Sequence[int]) -> FloatArray:
    """Return pass^k, shape (P, K): the chance that all of k samples are correct, C(c, k) / C(n, k).

    Samples are drawn without replacement, so that it is unbiased (Yao et al. 2024,
    https://arxiv.org/abs/2406.12045). Raises MetricError where k exceeds n.
    """
    return g_pass_at_k(n_P, c_P, ks, 1.0)


def g_pass_at_k(n_P: IntArray, c_P: IntArray, ks: Sequence[int], tau: float) -> FloatArray:
    """Return G-Pass@k, shape (P, K): the chance that at least tau k of k samples are correct.

    Hypergeometric, so without bias (Liu et al. 2024, https://arxiv.org/abs/2412.13147). At least
    one sample has to be correct. Raises MetricError where k exceeds n or tau isn't above
    0 and at most 1.
    """
    from scipy.stats import hypergeom

    _check_share(tau)
    n_P, c_P = np.asarray(n_P), np.asarray(c_P)
    if bad := [k for k in ks if not 1 <= k <= int(n_P.min(initial=np.iinfo(int).max))]:
        raise MetricError(
            f"G-Pass@{bad[0]} is undefined for a problem with {n_P.min()} samples",
            f"use k from 1 to {n_P.min()}, or sample more per problem",
        )
    ks_K = np.asarray(ks, int)
    wanted_K = _least(tau, ks_K)
    found_PK: FloatArray = hypergeom.sf(
        wanted_K - 1, n_P[:, None], c_P[:, None], ks_K
    )  # the chance of more than wanted - 1
    return np.clip(found_PK, 0.0, 1.0)


def covered_at(n_P: IntArray, c_P: IntArray, taus: Sequence[float]) -> FloatArray:
    """Return Cover@tau by problem, 1 or 0, shape (P, tau): whether the share c/n is at least tau.

    It is the plug-in: a problem whose chance lies near tau falls on either side by the noise of n
    samples. Raises MetricError where a tau isn't above 0 and at most 1.
    """
    for tau in taus:
        _check_share(tau)
    n_P, c_P = np.asarray(n_P)[:, None], np.asarray(c_P)[:, None]
    least_PT = np.stack([_least(tau, n_P[:, 0]) for tau in taus], axis=1)
    covered_PT: FloatArray = (c_P >= least_PT).astype(float)
    return covered_PT


def _least(tau: float, of: IntArray) -> IntArray:
    """Return the fewest correct samples that are a share of tau; .3 of 10 gives 3, never 4."""
    least: IntArray = np.maximum(1, np.ceil(tau * of - 1e-9)).astype(int)
    return least


def _check_share(tau: float) -> None:
    if not 0 < tau <= 1:
        raise MetricError(f"tau must be above 0 and at most 1, not {tau:g}", "for example 0.5")


def maj_at_k(votes: Votes, ks: Sequence[int], *, resamples: int = 500, seed: int = 0) -> FloatArray:
    """Return the chance (K,) that k of a problem's n samples elect the correct answer.

    The k are drawn without replacement. `votes` counts the samples by answer: RIGHT, wrong ones by
    their text, None without an answer. Ties are broken by lot. Exact at k = 1 and k = n; between
    them the mean over `resamples` random orders of the samples, of which the first k vote. Raises
    MetricError where k exceeds n.
    """
    n, right = sum(votes.values()), votes.get(RIGHT, 0)
    if bad := [k for k in ks if not 1 <= k <= n]:
        raise MetricError(
            f"maj@{bad[0]} is undefined for a problem with {n} samples", f"use k from 1 to {n}"
        )
    wrong = tuple(count for answer, count in votes.items() if answer not in (RIGHT, None))
    if not wrong:  # a single correct vote wins
        return np.asarray(pass_at_k(n, right, list(ks)))
    return _majorities((right, votes.get(None, 0), *wrong), tuple(ks), resamples, seed)


@lru_cache(1 << 14)  # curve, difference and crossing ask for the same problems
def _majorities(
    votes: tuple[int, ...], ks: tuple[int, ...], resamples: int, seed: int
) -> FloatArray:
    """Return `maj_at_k` of votes for the correct answer, for none, and for each wrong one."""
    votes_A, n, right = np.array(votes, int), sum(votes), votes[0]
    first = _first_votes(votes_A, [k for k in ks if 1 < k < n], resamples, seed)
    chances = {k: float(_elected(votes_RA).mean()) for k, votes_RA in first.items()}
    chances |= {n: float(_elected(votes_A[None])[0]), 1: right / n}
    chance_K = np.array([chances[k] for k in ks])
    chance_K.flags.writeable = False
    return chance_K


def _first_votes(
    votes_A: IntArray, ks: Sequence[int], resamples: int, seed: int
) -> dict[int, IntArray]:
    """For each k the votes (R, A) of the first k samples, in the same random orders for all k."""
    if not ks:
        return {}
    kinds = len(votes_A)
    samples_N = np.repeat(np.arange(kinds), votes_A)
    # the same orders for all k, so that the curve over k is one of the same samples, and smooth
    order_RN = np.random.default_rng(seed).permuted(np.tile(samples_N, (resamples, 1)), axis=1)
    order_RN += kinds * np.arange(resamples)[:, None]
    by_k, votes_RA, before = {}, np.zeros((resamples, kinds), int), 0
    for k in sorted(set(ks)):
        more = np.bincount(order_RN[:, before:k].ravel(), minlength=resamples * kinds)
        votes_RA = votes_RA + more.reshape(resamples, kinds)
        by_k[k], before = votes_RA, k
    return by_k


def _elected(votes_RA: IntArray) -> FloatArray:
    """Return the chance that the correct answer, A's first, wins; A's second means none."""
    right_R, others_RA = votes_RA[:, 0], votes_RA[:, 2:]
    tied_R = 1 + (others_RA == right_R[:, None]).sum(axis=1)
    wins_R = (right_R > 0) & (right_R >= others_RA.max(axis=1, initial=0))
    chance_R: FloatArray = np.where(wins_R, 1 / tied_R, 0.0)
    return chance_R


def entropy_of_counts(counts: Sequence[int]) -> float:
    """-sum f log f over the shares of counts, in nats; NaN where nothing was counted.

    The plug-in value: low by about (kinds - 1) / 2n, so that equal n are to be compared.
    """
    count = np.array([count for count in counts if count], float)
    if not len(count):
        return float("nan")
    share = count / count.sum()
    return float(-(share * np.log(share)).sum() + 0.0)


def distinct_of(counts: Sequence[int], k: int) -> float:
    """The expected number of kinds among k samples without replacement (Hurlbert 1971).

    NaN if k > n. A kind with c samples is met with the probability that pass@k gives it.
    """
    n = sum(counts)
    if k > n:
        return float("nan")
    return float(pass_at_k(np.full(len(counts), n), np.array(counts, int), k).sum())
