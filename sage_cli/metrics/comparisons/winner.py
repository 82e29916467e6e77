"""The best of several models: its paired differences, and how much its choice flatters it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.comparisons.differences import gap_interval
from sage_cli.metrics.comparisons.hull import gain_intervals
from sage_cli.metrics.comparisons.objective import ObjectiveValues
from sage_cli.metrics.comparisons.ranking import leading
from sage_cli.metrics.comparisons.seed_noise import error_over
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.distributions import two_sided_reach
from sage_cli.metrics.intervals.interval import Resampling


@dataclass(frozen=True)
class Gap:
    """A paired difference with its interval; the ends are NaN for one problem."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Optimism:
    """The expected excess of the best model's value over its true one, because it was chosen.

    `estimate` counts problems and training seeds; None if no model has two seeds. `least` counts
    problems alone. `most` is the excess if all models were equal: the best value less the mean.
    """

    estimate: float | None
    least: float
    most: float


@dataclass(frozen=True)
class Winner:
    """The places of the best and the second-best model, and the paired differences of the best.

    The intervals hold for two models that were named beforehand; `optimism` is what the choice of
    the best adds to `over_base` on average. `over_base` is None if the base is not measured,
    `second`, `over_second` and `optimism` if there is one model.
    """

    best: int
    second: int | None
    over_base: Gap | None
    over_second: Gap | None
    optimism: Optimism | None


def winner(
    values: ObjectiveValues, base_P: FloatArray | None = None, confidence: float = 0.95
) -> Winner:
    """Compare the best model with `base_P`, a fixed model's values, and with the second best.

    All are measured on the same problems, in the same order.
    """
    best, *others = leading(values)
    second = others[0] if others else None
    return Winner(
        best,
        second,
        None if base_P is None else gap_over_base(values, best, base_P, confidence),
        None if second is None else gap_over(values, best, second, confidence),
        None if second is None else optimism(values),
    )


def gap_over_base(
    values: ObjectiveValues, place: int, base_P: FloatArray, confidence: float = 0.95
) -> Gap:
    """Return a model's paired difference from a fixed model, such as the initial policy.

    If seeds are known to vary, they vary on one side: the error is `error_over`'s with the variance
    between seeds pooled over all models. The interval contains that of the runs at hand.
    """
    runs_IP, noise = values.models[place], values.noise
    gap_P = runs_IP.mean(axis=0) - base_P
    at_hand = _over_problems(gap_P, values, confidence)
    if noise is None or len(gap_P) < 2:
        return at_hand
    if len(runs_IP) > 1:
        pool = [[one_IP[..., None]] for one_IP in values.models]
        error_1, freedom_1 = error_over([(runs_IP[..., None], base_P[None, :, None])], pool)
    else:  # one run, of whose seeds other models tell
        error_1, freedom_1 = noise.error(gap_P[:, None], 1.0)
    reach = float((two_sided_reach(1 - confidence, freedom_1) * error_1)[0])
    return Gap(
        at_hand.value, min(at_hand.low, at_hand.value - reach),
        max(at_hand.high, at_hand.value + reach),
    )  # fmt: skip


def gap_over(values: ObjectiveValues, one: int, other: int, confidence: float = 0.95) -> Gap:
    """Return the paired difference of two models, over seeds too if some model has several."""
    one_IP, other_IP, noise = values.models[one], values.models[other], values.noise
    gap_P = one_IP.mean(axis=0) - other_IP.mean(axis=0)
    if noise is not None and len(gap_P) > 1:
        error_1, freedom_1 = noise.error(gap_P[:, None], 1 / len(one_IP) + 1 / len(other_IP))
        if error_1[0] > 0:
            reach = float((two_sided_reach(1 - confidence, freedom_1) * error_1)[0])
            value = float(gap_P.mean())
            return Gap(value, value - reach, value + reach)
    return _over_problems(gap_P, values, confidence)


def optimism(values: ObjectiveValues, *, resamples: int = 2000, seed: int = 0) -> Optimism:
    """Estimate how much the best value of two or more models overstates its model's true one.

    Problems are resampled for all models together, and each model's seeds are replaced by a normal
    deviate with the variance between seeds, pooled over models. The observed values are spread by
    noise already: they are shrunk to the spread that the noise leaves, and the noise of the model
    that is best in a resample is averaged. NaN for one problem.
    """
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    mean_Z, (Z, P) = means_ZP.mean(axis=1), means_ZP.shape
    most = float(mean_Z.max() - mean_Z.mean())
    if P < 2:
        return Optimism(None, float("nan"), most)
    generator = np.random.default_rng(seed)
    share_RP = generator.multinomial(P, np.full(P, 1 / P), size=resamples) / P
    noise_RZ = share_RP @ (means_ZP - mean_Z[:, None]).T
    least = _excess(mean_Z, noise_RZ)
    if (variance := _seed_variance(values)) is None:
        return Optimism(None, least, max(least, most))
    runs_Z = np.array([len(runs_IP) for runs_IP in values.models])
    noise_RZ += generator.normal(size=(resamples, Z)) * np.sqrt(variance / runs_Z)
    return Optimism(_excess(mean_Z, noise_RZ), least, max(least, most))


def _excess(mean_Z: FloatArray, noise_RZ: FloatArray) -> float:
    """Return the mean noise of the model that is best in a resample."""
    spread, noise = mean_Z.var(ddof=1), noise_RZ.var(axis=1, ddof=1).mean()
    kept = np.sqrt(max(0.0, 1 - noise / spread)) if spread > 0 else 0.0
    chosen_R = (mean_Z.mean() + kept * (mean_Z - mean_Z.mean()) + noise_RZ).argmax(axis=1)
    excess_RZ = noise_RZ - noise_RZ.mean(axis=0)
    return max(0.0, float(excess_RZ[np.arange(len(excess_RZ)), chosen_R].mean()))


def _seed_variance(values: ObjectiveValues) -> float | None:
    """Return the variance between a model's seeds without that of samples, which problems show."""
    if (noise := values.noise) is None:
        return None
    P = values.models[0].shape[1]
    return max(0.0, float(noise.between_K[0] - noise.residual_K[0] / P))


def _over_problems(gap_P: FloatArray, values: ObjectiveValues, confidence: float) -> Gap:
    """Return the mean gap of the runs at hand with its interval over problems."""
    value, highest = float(gap_P.mean()), values.highest
    if len(gap_P) < 2:
        return Gap(value, float("nan"), float("nan"))
    if values.are_gains:
        ((low, high),) = gain_intervals(gap_P[:, None], Resampling(confidence))
        return Gap(value, max(low, -2 * highest), min(high, 2 * highest))
    ends = gap_interval(gap_P[:, None] / highest, Resampling(confidence))
    return Gap(value, float(ends.low_K[0]) * highest, float(ends.high_K[0]) * highest)
