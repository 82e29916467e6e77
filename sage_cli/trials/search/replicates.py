"""The replicates to run next in a race, which halves the trials from seed to seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np

from sage_cli.metrics.comparisons.objective import Result, by_problem
from sage_cli.metrics.comparisons.ranking import non_dominated
from sage_cli.metrics.comparisons.seed_noise import residual
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.bands import pooled_variance
from sage_cli.metrics.intervals.distributions import two_sided_p
from sage_cli.settings.objective import Objective

Replicate = Sequence[Result]
"""The results of one replicate on each benchmark."""
Name = TypeVar("Name")


def next_rung(
    measured: Mapping[Name, Mapping[int, Replicate]],
    objectives: Sequence[Objective],
    seeds: int,
    failed: Collection[tuple[Name, int]] = (),
) -> tuple[list[tuple[Name, int]], list[Name]]:
    """The (trial, seed index) pairs that a race lacks at its next rung, and the trials left there.

    `measured` has the replicates of each trial so far, by the index of their seed. A race is
    successive halving: all trials get the first seed, the best half the second, the best quarter
    the third, and so on. A `failed` pair leaves the race. Without pairs the race is over, and the
    trials that have all seeds are left, the best first.

    Who reaches a rung follows from the seeds before it alone, so results may come in any order.
    """
    left = list(measured)
    for seed in range(seeds):
        lacking = [(one, seed) for one in left if seed not in measured[one]]
        if waiting := [pair for pair in lacking if pair not in failed]:
            return waiting, left
        there = [one for one in left if seed in measured[one]]
        values = [
            _values([measured[one][first] for first in range(seed + 1)], objectives).mean((0, 1))
            for one in there
        ]
        last = seed + 1 == seeds
        kept = len(there) if last else rung(len(measured), seed + 1)
        left = [there[place] for place in best_first(values)[:kept]]
    return [], left


def rung(trials: int, seed: int) -> int:
    """How many of all trials get the seed of that index: half of those before, at least two."""
    return min(trials, max(2, -(-trials >> seed)))


def best_first(values: Sequence[FloatArray]) -> list[int]:
    """The places of the trials, front after front, within one by the sum of the objectives."""
    value_CK, order = np.array(values), list[int]()
    left = sorted(range(len(values)), key=lambda place: -float(value_CK[place].sum()))
    while left and value_CK.shape[1] > 1:
        front = [left[place] for place in non_dominated(value_CK[left])]
        order += [place for place in left if place in front]
        left = [place for place in left if place not in front]
    return order + left


def stands_out(
    measured: Mapping[Name, Mapping[int, Replicate]],
    objectives: Sequence[Objective],
    finalists: Sequence[Name],
    confidence: float = 0.95,
) -> bool:
    """Return True if the best of a race's finalists is distinguishable from all others of them.

    By `contenders`, two-sided, at a level shared among all trials that began the race, since any
    of them might have become the best by luck.
    """
    values = [_values(list(measured[one].values()), objectives) for one in finalists]
    shared = 1 - (1 - confidence) / 2 * (len(finalists) - 1) / max(1, len(measured) - 1)
    return contenders(values, shared) == {0}


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
    ids = [result.problem_ids for result in replicates[0]]
    total = sum(map(len, ids))

    def of(objective: Objective, one: Replicate) -> FloatArray:
        shares = [total / len(names) / len(ids) for names in ids]
        parts = zip(one, ids, shares, strict=True)
        return np.concatenate(
            [by_problem(objective, result.ordered(names)) * share for result, names, share in parts]
        )

    return np.stack(
        [np.stack([of(objective, one) for objective in objectives], axis=1) for one in replicates]
    )


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
