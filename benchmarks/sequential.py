"""Level and power of the sequential rule over initial policies, against its alternatives.

    python benchmarks/sequential.py --studies 100000

Level: the share of studies in which the interval of any look excludes the true mean of 0. Power:
the share that find a mean of so many standard deviations by the last look, and how many initial
policies they needed on average (studies that find nothing need all).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.distributions import two_sided_reach
from sage_cli.metrics.intervals.sequential import look_levels

LOOKS = (8, 12, 16, 20, 24)
ALPHA = 0.05
EFFECTS = (0.5, 0.75, 1.0, 1.5)

Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def _scaled(deviations: Callable[[FloatArray], FloatArray]) -> Draw:
    """Return normal values whose deviation depends on their place."""
    return lambda rng, size: rng.normal(size=size) * deviations(np.arange(size[1], dtype=float))


CASES: Mapping[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t, 3 degrees of freedom": lambda rng, size: rng.standard_t(3, size),
    "t, 2 degrees of freedom": lambda rng, size: rng.standard_t(2, size),
    "one in ten with 5 SD": lambda rng, size: (
        rng.normal(size=size) * np.where(rng.random(size) < 0.1, 5, 1)
    ),
    "lognormal SDs": lambda rng, size: rng.normal(size=size) * np.exp(rng.normal(0, 0.8, size)),
    "3 SD in the first 8": _scaled(lambda place: np.where(place < 8, 3, 1)),
    "3 SD in the last 8": _scaled(lambda place: np.where(place >= 16, 3, 1)),
    "4 SD in every fourth": _scaled(lambda place: np.where(place % 4 == 0, 4, 1)),
    "uniform": lambda rng, size: rng.random(size) - 0.5,
    "two points": lambda rng, size: rng.choice([-1.0, 1.0], size) + 0.1 * rng.normal(size=size),
    "skewed (gamma 4)": lambda rng, size: rng.gamma(4, 1, size) - 4,
    "skewed (exponential)": lambda rng, size: rng.exponential(1, size) - 1,
}


def mixture_reach(count: int, alpha: float, prior: float) -> float:
    """Return the |t| at which the scale-invariant normal-mixture martingale reaches 1 / alpha.

    Wang and Ramdas 2023 (arXiv:2310.03722): valid after every value. With g = 1 + n prior,
    v = n - 1 and a normal prior over effect sizes it is
    g^(-1/2) ((1 + t²/v) / (1 + t²/(v g)))^(n/2).
    """
    grown = 1 + count * prior
    ratio = (np.sqrt(grown) / alpha) ** (2 / count)
    if ratio >= grown:
        return float("inf")
    return float(np.sqrt((count - 1) * (ratio - 1) / (1 - ratio / grown)))


def rules() -> dict[str, FloatArray]:
    """Return the |t| beyond which each rule stops, at each look."""
    freedom_L = np.array(LOOKS) - 1.0

    def student(levels: tuple[float, ...]) -> FloatArray:
        pairs = zip(levels, freedom_L, strict=True)
        return np.array([float(two_sided_reach(level, np.array(v))) for level, v in pairs])

    found = {
        "alpha spending (used)": student(look_levels(LOOKS, ALPHA)),
        "Bonferroni": student((ALPHA / len(LOOKS),) * len(LOOKS)),
    }
    for prior in (0.5, 1.0, 2.0):
        found[f"normal mixture, prior {prior:g}"] = np.array(
            [mixture_reach(count, ALPHA, prior) for count in LOOKS]
        )
    found["Student's at each look"] = student((ALPHA,) * len(LOOKS))
    return found


def t_at_looks(values_RI: FloatArray) -> FloatArray:
    """Return |t| of each study at each look."""
    return np.stack(
        [
            np.abs(first.mean(1)) / (first.std(1, ddof=1) / np.sqrt(count))
            for count in LOOKS
            for first in [values_RI[:, :count]]
        ],
        axis=1,
    )


def main() -> None:
    """Print levels and power as Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, size = np.random.default_rng(options.seed), (options.studies, LOOKS[-1])
    reach = rules()
    levels = ", ".join(f"{level:.4f}" for level in look_levels(LOOKS, ALPHA))
    print(f"levels at {LOOKS}: {levels}\n")
    print("| values | " + " | ".join(reach) + " |")
    print("|---" * (1 + len(reach)) + "|")
    for name, draw in CASES.items():
        t_RL = t_at_looks(draw(rng, size))
        shares = [float((t_RL > of).any(axis=1).mean()) for of in reach.values()]
        print(f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    print("\n| rule | " + " | ".join(f"{effect:g} SD" for effect in EFFECTS) + " |")
    print("|---" * (1 + len(EFFECTS)) + "|")
    drawn = [t_at_looks(rng.normal(effect, 1, size)) for effect in EFFECTS]
    for name, of in reach.items():
        cells = []
        for t_RL in drawn:
            hit_RL = t_RL > of
            found_R = hit_RL.any(axis=1)
            needed_R = np.where(found_R, np.array(LOOKS)[hit_RL.argmax(axis=1)], LOOKS[-1])
            cells.append(f"{hit_RL[:, 0].mean():.2f}, {found_R.mean():.2f}, {needed_R.mean():.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
