"""The guides' formulas, Eqs. 9 to 11: the package's guides against a second computation."""

from __future__ import annotations

from math import erf, exp, pi, sqrt
from statistics import NormalDist

import numpy as np
import torch

from sage_cli.guides import BranchGuide, Guide, RandomGuide, Signals, TokenGuide
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.statement import Found, distance, statement

LOW, HIGH = 0.6, 1.4
"""The authors' clamp."""
LOGPS_BT = np.log(np.random.default_rng(5).uniform(0.01, 1.0, (6, 12)))
"""Log-probabilities of the tokens of six completions."""


@statement("random guide", "9", "as printed")
def random_formula() -> Found:
    """q_t is 1 + sigma z where a uniform number is below epsilon and 1 elsewhere; over its noise it
    is 1 in the mean, inside the clamp too, and log q_t is below 0.
    """
    guide = RandomGuide()
    chosen_BT, uniform_BT = (u_BT.numpy() for u_BT in guide.noise(_signals(), 0))
    noise_BT = np.vectorize(NormalDist().inv_cdf)(uniform_BT)
    expected_BT = np.where(chosen_BT < 0.1, 1 + 0.15 * noise_BT, 1.0)
    mean_q, mean_log_q = clipped_moments(1.0, 0.15)
    error = max(distance(_q(guide), expected_BT.clip(LOW, HIGH)), distance(mean_q, 1.0))
    return error, {"mean log q_t where it is noisy": mean_log_q}


@statement("token guide", "10", "on a condition")
def token_formula() -> Found:
    """q_t is normal with mean 1 + alpha w_t and deviation sigma w_t; 1 + alpha is close to the
    clamp's upper end, which takes a fifth of the most surprising token's mean shift.
    """
    guide = TokenGuide(norm="rank")
    uniform_BT = guide.noise(_signals(), 0)[0].numpy()
    noise_BT = np.vectorize(NormalDist().inv_cdf)(uniform_BT)
    w_BT = (-LOGPS_BT).argsort(axis=1).argsort(axis=1) / (LOGPS_BT.shape[1] - 1)
    expected_BT = 1 + w_BT * (0.3 + 0.25 * noise_BT)
    mean_q, _ = clipped_moments(1.3, 0.25)
    error = max(
        distance(_q(guide), expected_BT.clip(LOW, HIGH)),
        distance(mean_q, clipped_normal_mean(1.3, 0.25)),
    )
    return error, {"mean q_t at w = 1, alpha = .3, sigma = .25": mean_q}


@statement("branch guide", "11", "as printed")
def branch_formula() -> Found:
    """q_t is 1 up to tau, rises by rho per nat above it, and stands at the clamp's 1.4 from tau +
    .4 / rho on.
    """
    entropy_T = np.linspace(0, 5, 501)
    entropy_BT = torch.from_numpy(entropy_T)[None]
    signals = Signals(-entropy_BT, entropy_BT, torch.ones_like(entropy_BT))
    found_T = BranchGuide().log_q(signals, 0).exp().numpy()[0]
    full = 1.2 + (HIGH - 1) / 0.3
    expected_T = [1 if h < 1.2 else 1 + 0.3 * (h - 1.2) if h < full else HIGH for h in entropy_T]
    error = distance(found_T, np.array(expected_T))
    return error, {"entropy at which the default guide is clamped": full}


def clipped_moments(mean: float, deviation: float, points: int = 20_000) -> tuple[float, float]:
    """Return the means of q and log q over clamped normal q, by the midpoint rule on quantiles."""
    normal = NormalDist(mean, deviation)
    q = np.array([normal.inv_cdf((i + 0.5) / points) for i in range(points)]).clip(LOW, HIGH)
    return float(q.mean()), float(np.log(q).mean())


def clipped_normal_mean(mean: float, deviation: float) -> float:
    """Return the mean of a normal variable that is clamped, in closed form."""
    below, above = (LOW - mean) / deviation, (HIGH - mean) / deviation
    inside = _cdf(above) - _cdf(below)
    return (
        LOW * _cdf(below)
        + HIGH * (1 - _cdf(above))
        + mean * inside
        - deviation * (_density(above) - _density(below))
    )


def _cdf(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2


def _density(z: float) -> float:
    return exp(-z * z / 2) / sqrt(2 * pi)


def _signals() -> Signals:
    logps_BT = torch.from_numpy(LOGPS_BT)
    return Signals(logps_BT, logps_BT.neg(), torch.ones(LOGPS_BT.shape))


def _q(guide: Guide) -> FloatArray:
    q_BT: FloatArray = guide.log_q(_signals(), 0).exp().numpy()
    return q_BT
