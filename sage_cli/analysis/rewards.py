"""What the rewards of a training said of its completions, from its ledger."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sage_cli.metrics.counts import FloatArray, IntArray
from sage_cli.store.ledger import COUNT, REWARD, rewards_in


def rewards_by_step(ledger: pa.Table) -> dict[str, tuple[IntArray, FloatArray]]:
    """Return by reward the steps S and the means of the completions that were trained on.

    A step is left out where the reward says nothing of any completion. {} for a ledger without
    rewards.
    """
    trained_R = np.array(ledger["trained"].to_pylist(), dtype=bool)
    step_R = np.array(ledger["step"].to_pylist(), dtype=np.int64)
    return {name: _means(ledger, name, step_R, trained_R) for name in rewards_in(ledger)}


def mean_in(steps: IntArray, step_S: IntArray, mean_S: FloatArray) -> float:
    """Return the mean of `mean_S` over those of `steps` that are among `step_S`; NaN for none."""
    among_S = np.isin(step_S, steps)
    return float(mean_S[among_S].mean()) if among_S.any() else float("nan")


def _means(
    ledger: pa.Table, name: str, step_R: IntArray, trained_R: np.ndarray
) -> tuple[IntArray, FloatArray]:
    mean_R = np.array(ledger[f"{REWARD}{name}"].to_pylist(), dtype=float)
    n_R = np.array([n or 0 for n in ledger[f"{REWARD}{name}{COUNT}"].to_pylist()])
    said_R = trained_R & (n_R > 0)
    step_S, place_R = np.unique(step_R[said_R], return_inverse=True)
    sums_S = np.bincount(place_R, mean_R[said_R] * n_R[said_R])
    return step_S, sums_S / np.bincount(place_R, n_R[said_R])
