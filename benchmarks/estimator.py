"""How long pass@k takes for 10,000 problems and 256 ks, beside one call per problem and k.

python benchmarks/estimator.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sage_cli.metrics import Counts, curve, pass_at_k

PROBLEMS, REPEATS = 10_000, 7
KS = np.arange(1, 257)


def product_form(n: int, c: int, k: int) -> float:
    """The numerically stable form that Chen et al. 2021 print: one problem, one k."""
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def best_ms(work: Callable[[], object]) -> float:
    """The fastest of several runs, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1000 * min(times)


def main() -> None:
    """Print one line per case."""
    generator = np.random.default_rng(0)
    for n in (256, 1024, 10_000):
        c_P = generator.integers(0, n + 1, PROBLEMS)
        took_ms = best_ms(lambda n=n, c_P=c_P: pass_at_k(n, c_P, KS))
        pairs = len(np.unique(c_P))
        print(f"n = {n:6}: {PROBLEMS} problems ({pairs} different c) x 256 k: {took_ms:6.1f} ms")
    mixed_P = generator.integers(256, 10_001, PROBLEMS)
    c_P = generator.integers(0, mixed_P + 1)
    took_ms = best_ms(lambda: pass_at_k(mixed_P, c_P, KS))
    print(f"n = 256..10,000, all problems different: {took_ms:6.1f} ms")
    c_P = generator.integers(0, 257, 60)
    counts = Counts(tuple(map(str, range(60))), np.full(60, 256), c_P)
    band_ms = best_ms(lambda: curve(counts, KS))
    print(f"60 problems, 256 k, band of 2,000 resamples: {band_ms:.1f} ms")
    loop_ms = best_ms(lambda: [[product_form(256, int(c), int(k)) for k in KS] for c in c_P])
    print(f"60 problems, 256 k, one call per problem and k: {loop_ms:.1f} ms, "
          f"{loop_ms / best_ms(lambda: pass_at_k(256, c_P, KS)):.0f} times pass_at_k")  # fmt: skip


if __name__ == "__main__":
    main()
