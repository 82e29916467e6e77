"""The power of a mean over few initial policies."""

from __future__ import annotations

from sage_cli.metrics.design.precision import POWER


def smallest_mean(
    deviation: float, policies: int, confidence: float = 0.95, power: float = POWER
) -> float:
    """Return the mean difference that Student's t finds with probability `power`.

    It is over so many initial policies whose differences have this standard deviation; exact, by
    the noncentral distribution.
    """
    from scipy.optimize import brentq
    from scipy.special import ncfdtr, stdtrit

    freedom = policies - 1
    reach = -float(stdtrit(freedom, (1 - confidence) / 2))

    def missing(noncentrality: float) -> float:
        # the square of a noncentral t is a noncentral F, which stays finite for few policies
        return float(1 - ncfdtr(1, freedom, noncentrality**2, reach**2)) - power

    standard_errors = float(brentq(missing, 1e-6, 3 + 2 * reach))
    return standard_errors * deviation / float(policies**0.5)
