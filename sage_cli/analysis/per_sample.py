"""A number of each completion, gathered problem by problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sage_cli.metrics.counts import FloatArray


def by_problem(
    ids: Sequence[str], values: Iterable[tuple[str, float]]
) -> tuple[list[FloatArray], FloatArray]:
    """(problem id, value) pairs as an array per problem, in the order of `ids`, and their means.

    NaN values are left out; the mean of no value is NaN.
    """
    gathered: dict[str, list[float]] = {id_: [] for id_ in ids}
    for id_, value in values:
        if not np.isnan(value):
            gathered[id_].append(value)
    arrays = [np.array(one, float) for one in gathered.values()]
    means = [one.mean() if len(one) else np.nan for one in arrays]
    return arrays, np.array(means, float)
