"""Token guide: more anchor on surprising tokens, with noise (Eq. 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from sage_cli.guides.annealed import AnnealedGuide, to_normal
from sage_cli.guides.guide import Signal
from sage_cli.guides.signals import Signals

if TYPE_CHECKING:
    from torch import Tensor

Norm = Literal["minmax", "rank", "zscore"]
LOW_QUANTILE, HIGH_QUANTILE = 0.05, 0.95


class TokenGuide(AnnealedGuide):
    """Eq. 10: q ~ N(1 + alpha w, (sigma w)^2), w the row-normalised surprisal."""

    name: Literal["token"] = "token"
    alpha: tuple[float, float] = (0.3, 0.1)
    """Weight of surprisal in q's mean: upper and lower end of its schedule."""
    sigma: tuple[float, float] = (0.25, 0.1)
    """Weight of surprisal in q's deviation: upper and lower end of its schedule."""
    norm: Norm = "minmax"
    """How a completion's surprisals become w in [0, 1]."""
    signal: Signal = "policy"
    """The model whose surprisal is read."""

    @model_validator(mode="after")
    def _ranges(self) -> TokenGuide:
        if any(value < 0 for value in (*self.alpha, *self.sigma)):
            raise ValueError("alpha and sigma are at least 0 at both ends")
        return self

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return Eq. 10 at `step` of the clock."""
        alpha, sigma = self.annealed(step, self.alpha), self.annealed(step, self.sigma)
        w_BT = normalised_surprisal(signals.logps_BT, signals.mask_BT, self.norm)
        if sigma == 0:
            return 1 + alpha * w_BT
        uniform_BT, _ = self.noise(signals, step)
        return 1 + w_BT * (alpha + sigma * to_normal(uniform_BT))


def normalised_surprisal(logps_BT: Tensor, mask_BT: Tensor, norm: Norm) -> Tensor:
    """Return w_BT in [0, 1] from -log pi, each row over its own unmasked tokens; 0 elsewhere.

    If all tokens of a row are equally surprising, minmax gives 0, rank and zscore give 1/2 (rank
    gives 0 to a single token).
    """
    # as NaN, tokens outside the mask drop out of a row's quantiles and means
    surprisal_BT = (-logps_BT).masked_fill(~mask_BT.bool(), float("nan"))
    normalise = {"minmax": _minmax, "rank": _rank, "zscore": _zscore}[norm]
    return normalise(surprisal_BT).masked_fill(~mask_BT.bool(), 0)


def _minmax(values_BT: Tensor) -> Tensor:
    """Clamp to the 5 % and 95 % quantiles, then (v - min) / (max - min)."""
    low_B1 = values_BT.nanquantile(LOW_QUANTILE, dim=1, keepdim=True)
    high_B1 = values_BT.nanquantile(HIGH_QUANTILE, dim=1, keepdim=True)
    range_B1 = high_B1 - low_B1
    w_BT = (values_BT.clamp(low_B1, high_B1) - low_B1) / range_B1
    return w_BT.masked_fill(~(range_B1 > 0), 0)


def _rank(values_BT: Tensor) -> Tensor:
    """Return rank / (n - 1); tokens of equal surprisal share the mean of their ranks."""
    import torch

    count_B1 = (~values_BT.isnan()).sum(dim=1, keepdim=True)
    # tokens outside the mask are sorted behind all others
    comparable_BT = values_BT.nan_to_num(nan=torch.inf)
    sorted_BT = comparable_BT.sort(dim=1).values
    below_BT = torch.searchsorted(sorted_BT, comparable_BT)
    up_to_BT = torch.searchsorted(sorted_BT, comparable_BT, right=True)
    return (below_BT + up_to_BT - 1) / 2 / (count_B1 - 1).clamp(min=1)


def _zscore(values_BT: Tensor) -> Tensor:
    """Return the sigmoid of the population z-score."""
    centred_BT = values_BT - values_BT.nanmean(dim=1, keepdim=True)
    deviation_B1 = centred_BT.square().nanmean(dim=1, keepdim=True).sqrt()
    z_BT = (centred_BT / deviation_B1).masked_fill(~(deviation_B1 > 0), 0)
    return z_BT.sigmoid()
