"""Student's t distribution with any number of degrees of freedom.

SciPy is imported where it is used: it takes longer to load than NumPy, and most reports need none.
"""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray


def two_sided_p(t_K: FloatArray, freedom_K: FloatArray) -> FloatArray:
    """The chance that |T| is at least |t|, T with `freedom` degrees of freedom."""
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom_K, -np.abs(t_K)))


def two_sided_reach(alpha: float, freedom_K: FloatArray) -> FloatArray:
    """The t that |T| passes with probability `alpha`: 2.776 for 5 % and 4 degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(freedom_K, alpha / 2))


def freedom_of(alpha: float, reach_K: FloatArray) -> FloatArray:
    """The degrees of freedom whose |T| passes `reach` with probability `alpha`."""
    from scipy.special import stdtridf

    return np.asarray(stdtridf(1 - alpha / 2, reach_K))
