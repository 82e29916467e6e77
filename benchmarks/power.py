"""The power of designs with several initial policies, training seeds and n above k, by simulation.

    python benchmarks/power.py

Problems are those of a Beta(.31, .95): pass@1 .24 and pass@256 .84, as on generated products. Each
study draws problems, initial policies, seeds and samples anew; the true mean change is the one that
`sage power` calls the smallest, or 0. Its test is that of the mean gap over initial policies and
problems, both random: policies + problems - residual, with Satterthwaite's degrees of freedom.
"""

from __future__ import annotations

import argparse

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.design.cheapest import MEASURED
from sage_cli.metrics.design.population import Population
from sage_cli.metrics.design.power import CORRELATION, Design, Spread, smallest_changes
from sage_cli.metrics.intervals.distributions import two_sided_p

BETA = (0.31, 0.95)
SHIFTS = np.linspace(-1, 6, 141)
CASES = (
    (Design(200, 256), 256, Spread(), 0.2),
    (Design(200, 1024), 256, Spread(), 0.2),
    (Design(200, 4096), 256, Spread(), 0.2),
    (Design(200, 256, runs=3, policies=3), 256, MEASURED, 0.2),
    (Design(400, 1024, policies=4), 256, MEASURED, 0.2),
    (Design(200, 1024, runs=2, policies=8), 256, MEASURED, 0.2),
    (Design(800, 512, policies=8), 256, MEASURED, 0.0),
    (Design(200, 64, policies=6), 1, MEASURED, 0.2),
    (Design(100, 64, runs=5), 16, Spread(runs=0.2), 0.2),
)


def main() -> None:
    """Print a line for each design: the smallest difference, power there, and the level at 0."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=400)
    options.add_argument("--seed", type=int, default=0)
    typed = options.parse_args()
    generator = np.random.default_rng(typed.seed)
    p_L = np.clip(generator.beta(*BETA, 6000), 1e-6, 1 - 1e-6)
    population = Population(np.log(p_L) - np.log1p(-p_L), BETA)
    print("problems  n  policies  runs  k  heterogeneity  smallest  power  level")
    for design, k, spread, heterogeneity in CASES:
        ((smallest,),) = smallest_changes(
            population, [design], (k,), spread=spread, heterogeneity=heterogeneity
        )
        found = [
            np.mean(
                [
                    detected(population, design, k, spread, heterogeneity, change, generator)
                    for _ in range(typed.repetitions)
                ]
            )
            for change in (smallest, 0.0)
        ]
        print(
            f"{design.problems:8d} {design.samples:5d} {design.policies:3d} {design.runs:3d} "
            f"{k:4d} {heterogeneity:4g}  {smallest:.4f}  {found[0]:.3f}  {found[1]:.3f}"
        )


def detected(
    population: Population,
    design: Design,
    k: int,
    spread: Spread,
    heterogeneity: float,
    change: float,
    generator: np.random.Generator,
) -> bool:
    """Return True if one study of this design rejects "no difference" at 5 %."""
    shift = shift_of(population, spread if design.policies > 1 else Spread(), heterogeneity,
                     k, change)  # fmt: skip
    logit_P = generator.choice(population.logit_L, design.problems)
    own_P = heterogeneity * generator.standard_normal(design.problems)
    policy_I = generator.standard_normal(design.policies)
    policy_I *= spread.policies if design.policies > 1 else 0
    runs = spread.runs if design.runs * design.policies > 1 else 0
    run_IT = runs * generator.standard_normal((design.policies, design.runs))
    moved_ITP = (logit_P + own_P) + shift + policy_I[:, None, None] + run_IT[:, :, None]
    a_ITP, b_ITP = probability(moved_ITP), np.broadcast_to(probability(logit_P), moved_ITP.shape)
    first_ITP, second_ITP = together(a_ITP, b_ITP, design.samples, generator)
    n_X = np.full(first_ITP.size, design.samples)
    gap_X = pass_at_k(n_X, first_ITP.ravel(), k) - pass_at_k(n_X, second_ITP.ravel(), k)
    gap_ITP = gap_X.reshape(first_ITP.shape)
    if design.policies > 1:
        return p_of(gap_ITP.mean(axis=1)) <= 0.05
    return p_of(gap_ITP[0]) <= 0.05


def p_of(gap_IP: FloatArray) -> float:
    """Return the p of "no mean gap" over rows and columns, both random."""
    rows, columns = gap_IP.shape
    mean_P, mean_I = gap_IP.mean(axis=0), gap_IP.mean(axis=1)
    parts = [(mean_P.var(ddof=1) / columns, columns - 1)]
    residual = 0.0
    if rows > 1:
        parts.append((mean_I.var(ddof=1) / rows, rows - 1))
        off_IP = gap_IP - mean_I[:, None] - mean_P + gap_IP.mean()
        residual = (off_IP**2).sum() / ((rows - 1) * (columns - 1)) / (rows * columns)
    total = sum(variance for variance, _ in parts)
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    variance = max(total - residual, max(variance for variance, _ in parts))
    if variance <= 0:
        return 1.0
    t_1, freedom_1 = np.array([gap_IP.mean() / np.sqrt(variance)]), np.array([freedom])
    return float(two_sided_p(t_1, freedom_1)[0])


def shift_of(
    population: Population, spread: Spread, heterogeneity: float, k: int, change: float
) -> float:
    """Return the common shift at which mean pass@k changes by `change`, over all that varies."""
    wide = float(np.hypot(np.hypot(spread.policies, spread.runs), heterogeneity))
    before = solved(population.logit_L, k).mean()
    means = [solved(population.shifted(u, wide), k).mean() - before for u in SHIFTS]
    return float(np.interp(change, means, SHIFTS))


def together(
    a_X: FloatArray, b_X: FloatArray, n: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return right samples of two policies whose grades on a sample correlate."""
    most_X = np.minimum(a_X, b_X) - a_X * b_X
    covariance_X = np.minimum(CORRELATION * np.sqrt(a_X * (1 - a_X) * b_X * (1 - b_X)), most_X)
    both_X = a_X * b_X + covariance_X
    cells = np.stack([both_X, a_X - both_X, b_X - both_X, 1 - a_X - b_X + both_X], axis=-1)
    c_X4 = generator.multinomial(n, np.clip(cells, 0, 1))
    return c_X4[..., 0] + c_X4[..., 1], c_X4[..., 0] + c_X4[..., 2]


def probability(logit: FloatArray) -> FloatArray:
    """Return success probabilities of log-odds."""
    return np.asarray(1 / (1 + np.exp(-logit)))


def solved(logit_L: FloatArray, k: int) -> FloatArray:
    """Return the probability that k samples hold a right one."""
    return np.asarray(-np.expm1(-k * np.logaddexp(0, logit_L)))


if __name__ == "__main__":
    main()
