"""DPH-RL: divergences from the policy that sampled a text, and which problems they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from sage_cli.methods.dph_rl import Divergence


def divergence(log_ratio_BT: Tensor, kind: Divergence, *, alpha: float, limit: float) -> Tensor:
    """f(u) of each token, u = pi / P on text of P, so that its mean over P is a divergence.

    forward: u - 1 - log u, whose mean is KL(P | pi); js: u log u - (u + 1) log((u + 1) / 2), for
    m = (pi + P) / 2 the sum KL(pi | m) + KL(P | m), twice the usual; alpha, of order a:
    (u^(1 - a) - (1 - a) u - a) / (a (a - 1)). All are 0 with gradient 0 at u = 1.

    Above `limit` f goes on in log u with the slope that it has there: f grows with u, and a token
    that P found unlikely may have any. A mere cut would leave such a token where it is. Below 1
    nothing explodes.
    """
    log_u_BT = log_ratio_BT.clamp(max=limit)
    more_BT = log_u_BT.expm1()  # u - 1, exact near u = 1
    if kind == "forward":
        found_BT = more_BT - log_u_BT
    elif kind == "js":
        found_BT = log_u_BT.exp() * log_u_BT - (more_BT + 2) * (more_BT / 2).log1p()
    else:
        powered_BT = ((1 - alpha) * log_u_BT).expm1()
        found_BT = (powered_BT - (1 - alpha) * more_BT) / (alpha * (alpha - 1))
    return found_BT + slope(limit, kind, alpha=alpha) * (log_ratio_BT - limit).relu()


def slope(log_u: float, kind: Divergence, *, alpha: float) -> float:
    """The derivative of f(u) in log u."""
    u = math.exp(log_u)
    if kind == "forward":
        return u - 1
    return u * math.log(2 * u / (u + 1)) if kind == "js" else (u - u ** (1 - alpha)) / alpha


def held_completion(right: Sequence[bool], share: float) -> int | None:
    """The first right completion of a problem, None where less than `share` of them are right."""
    return list(right).index(True) if any(right) and sum(right) / len(right) >= share else None
