"""The replicates to run next in a race, which ends early for trials that have lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from sage_cli.metrics.comparisons.seed_noise import residual
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.metrics.intervals.distributions import two_sided_p
from sage_cli.metrics.intervals.variance_components import pooled_variance
from sage_cli.settings.objective import Objective

Replicate = Sequence[Counts]
"""The counts of one replicate on each benchmark."""
Name = TypeVar("Name")


def missing_replicates(
    measured: Mapping[Name, Mapping[int, Replicate]],
    objectives: Sequence[Objective],
    seeds: int,
    *,
    race: bool = False,
    confidence: float = 0.95,
) -> list[tuple[Name, int]]:
    """The (trial, seed index) pairs to run next, the best trials first; [] if none is left.

    `measured` has the replicates of each trial so far, by the index of their seed. Without a race
    every trial gets all `seeds`. In a race each gets one, and then one more at a time as long as it
    may be the best. While no trial has two, the variance between seeds is unknown, and the two best
    trials are kept.
    """
    if not race or any(not found for found in measured.values()):
        most = 1 if race else seeds
        return [(trial, seed) for trial, found in measured.items() for seed in range(most)
                if seed not in found]  # fmt: skip
    trials = list(measured)
    values = [_values(list(found.values()), objectives) for found in measured.values()]
    mean_CK = np.stack([one_IPK.mean(axis=(0, 1)) for one_IPK in values])
    order = np.argsort(-mean_CK.mean(axis=1), kind="stable")
    open_ = contenders(values, confidence)
    if all(len(one_IPK) == 1 for one_IPK in values):
        open_ |= set(order[:2].tolist())
    found = []
    for place in order.tolist():
        have = measured[trials[place]]
        left = [seed for seed in range(seeds) if seed not in have]
        if place in open_ and left:
            found.append((trials[place], left[0]))
    return found


def contenders(values: Sequence[FloatArray], confidence: float = 0.95) -> set[int]:
    """The places of the trials that may be on the front; of one objective, that may be the best.

    `values` has for each trial its objectives by problem, shape (I, P, K): I seeds. A trial is out
    if another is better in every objective by a one-sided t-test at the level
    (1 - confidence) / (trials - 1). A trial that no other beats therefore stays with probability
    `confidence`, however many others there are.
    """
    trials = len(values)
    if trials < 2 or values[0].shape[1] < 2:
        return set(range(trials))
    between_K, rest_K, freedom = _noise_of_seeds(values)
    level = (1 - confidence) / (trials - 1)
    mean_CPK = np.stack([one_IPK.mean(axis=0) for one_IPK in values])
    share_C = np.array([1 / len(one_IPK) for one_IPK in values])
    kept = set()
    for place in range(trials):
        gap_CPK = np.delete(mean_CPK, place, axis=0) - mean_CPK[place]
        share_C1 = (np.delete(share_C, place) + share_C[place])[:, None]
        p_CK = _p_of_lead(gap_CPK, between_K * share_C1, rest_K * share_C1, freedom)
        if not (p_CK <= level).all(axis=1).any():
            kept.add(place)
    return kept


def _values(replicates: Sequence[Replicate], objectives: Sequence[Objective]) -> FloatArray:
    """The objectives by problem, shape (I, P, K), whose mean over problems is the objective.

    With several benchmarks an objective is the mean over them; problems are weighted so.
    """
    ids = [counts.problem_ids for counts in replicates[0]]
    total = sum(map(len, ids))
    ks = sorted({k for one in objectives for k in one.weights})
    weight_KJ = np.array([[one.weights.get(k, 0.0) for one in objectives] for k in ks])
    return np.stack([
        np.concatenate([
            pass_matrix(counts.ordered(names), ks) @ weight_KJ * (total / len(names) / len(ids))
            for counts, names in zip(one, ids, strict=True)
        ])
        for one in replicates
    ])  # fmt: skip


def _noise_of_seeds(values: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray, int]:
    """The variance between a trial's runs, the residual variance of a problem in a run over the
    problems, and the degrees of freedom of the first, pooled over trials with several seeds.
    """
    freedom = sum(len(one_IPK) - 1 for one_IPK in values)
    problems = values[0].shape[1]
    if not freedom:
        zero_K = np.zeros(values[0].shape[2])
        return zero_K, zero_K, 0
    between_K = pooled_variance([one_IPK.mean(axis=1) for one_IPK in values])
    return between_K, residual(values) / problems, freedom


def _p_of_lead(
    gap_CPK: FloatArray, between_CK: FloatArray, rest_CK: FloatArray, freedom: int
) -> FloatArray:
    """One-sided p-values of "no better", shape (C, K), by the variance of `metrics.methods`.

    Between runs, and between problems what the noise of runs does not explain. Degrees of freedom
    after Satterthwaite.
    """
    problems = gap_CPK.shape[1]
    mean_CK, gaps_CK = gap_CPK.mean(axis=1), gap_CPK.var(axis=1, ddof=1) / problems
    more_CK = gaps_CK > rest_CK
    variance_CK = between_CK + np.where(more_CK, gaps_CK - rest_CK, 0)
    parts_CK = np.where(
        more_CK,
        gaps_CK**2 / (problems - 1) + rest_CK**2 / (max(freedom, 1) * (problems - 1)),
        0,
    )
    parts_CK = parts_CK + between_CK**2 / max(freedom, 1)
    p_CK: FloatArray = np.ones_like(mean_CK)
    told_CK = (variance_CK > 0) & (mean_CK > 0)  # without an error there is no evidence
    least = freedom or problems - 1
    freedom_X = np.maximum(variance_CK[told_CK] ** 2 / parts_CK[told_CK], least)
    t_X = mean_CK[told_CK] / np.sqrt(variance_CK[told_CK])
    p_CK[told_CK] = two_sided_p(t_X, freedom_X) / 2 if told_CK.any() else 1.0
    return p_CK
