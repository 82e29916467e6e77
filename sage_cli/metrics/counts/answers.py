"""Statistics of a problem's answers: maj@k, the number of kinds, and how evenly they occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray, IntArray
from sage_cli.metrics.counts.estimator import pass_at_k

RIGHT = "right"
"""The class of all answers that were graded right, in any notation."""


def maj_at_k(
    votes: Mapping[str | None, int], ks: Sequence[int], *, resamples: int = 500, seed: int = 0
) -> FloatArray:
    """The chance (K,) that k of a problem's n samples, without replacement, elect the right answer.

    `votes` counts the samples by answer: RIGHT, wrong ones by their text, None without an answer.
    Ties are broken by lot. Exact at k = 1 and k = n; between them the mean over `resamples` random
    orders of the samples, of which the first k vote. Raises MetricError where k exceeds n.
    """
    n, right = sum(votes.values()), votes.get(RIGHT, 0)
    if bad := [k for k in ks if not 1 <= k <= n]:
        raise MetricError(
            f"maj@{bad[0]} is undefined for a problem with {n} samples", f"ask for k from 1 to {n}"
        )
    wrong = [count for answer, count in votes.items() if answer not in (RIGHT, None)]
    votes_A = np.array([right, votes.get(None, 0), *wrong], int)
    if not wrong:  # a single right vote wins
        return np.asarray(pass_at_k(n, right, list(ks)))
    first = _first_votes(votes_A, [k for k in ks if 1 < k < n], resamples, seed)
    chances = {k: float(_elected(votes_RA).mean()) for k, votes_RA in first.items()}
    chances |= {n: float(_elected(votes_A[None])[0]), 1: right / n}
    return np.array([chances[k] for k in ks])


def _first_votes(
    votes_A: IntArray, ks: Sequence[int], resamples: int, seed: int
) -> dict[int, IntArray]:
    """For each k the votes (R, A) of the first k samples, in the same random orders for all k."""
    if not ks:
        return {}
    kinds = len(votes_A)
    samples_N = np.repeat(np.arange(kinds), votes_A)
    order_RN = np.random.default_rng(seed).permuted(np.tile(samples_N, (resamples, 1)), axis=1)
    order_RN += kinds * np.arange(resamples)[:, None]
    by_k, votes_RA, before = {}, np.zeros((resamples, kinds), int), 0
    for k in sorted(set(ks)):
        more = np.bincount(order_RN[:, before:k].ravel(), minlength=resamples * kinds)
        votes_RA = votes_RA + more.reshape(resamples, kinds)
        by_k[k], before = votes_RA, k
    return by_k


def _elected(votes_RA: IntArray) -> FloatArray:
    """The chance that the right answer, A's first, wins each election; A's second is no answer."""
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
