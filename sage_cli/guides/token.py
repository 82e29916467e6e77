"""Token guide: more anchor on surprising tokens, with noise (Eq. 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from sage_cli.guides.guide import AnnealedGuide, Signal, Signals, to_normal

if TYPE_CHECKING:
    from torch import Tensor

Norm = Literal["minmax", "rank", "zscore"]
LOW_QUANTILE, HIGH_QUANTILE = 0.05, 0.95


class TokenGuide(AnnealedGuide):
    """Eq. 10: q ~ N(1 + alpha w, (sigma w)^2), w the row-normalised surprisal."""

    name: Literal["token"] = "token"
    alpha: tuple[float, float] = (0.3, 0.1)
    """Weight that the surprisal has in q's mean, as the upper and lower end of its schedule."""
    sigma: tuple[float, float] = (0.25, 0.1)
    """Weight that the surprisal has in q's standard deviation, as the upper and lower end of its
    schedule."""
    norm: Norm = "minmax"
    """Normalisation that maps a completion's surprisals to w in [0, 1]."""
    signal: Signal = "policy"
    """Model whose surprisal the guide reads."""

    @model_validator(mode="after")
    def _ranges(self) -> TokenGuide:
        if any(value < 0 for value in (*self.alpha, *self.sigma)):
            raise ValueError("alpha and sigma are at least 0 at both ends")
        return self

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return Eq. 10 at `step` of the clock."""
        return self._q(
            normalised_surprisal(signals.logps_BT, signals.mask_BT, self.norm), step, signals
        )

    def q_of_others(self, signals: Signals, step: int, others_BTH: Tensor) -> Tensor:
        """Return Eq. 10 of other tokens, normalised by the row's sampled ones, with their noise."""
        surprisal_B_TH = (-others_BTH).flatten(1)
        w_B_TH = normalised_surprisal(signals.logps_BT, signals.mask_BT, self.norm, surprisal_B_TH)
        return self._q(w_B_TH.reshape(others_BTH.shape), step, signals)

    def _q(self, w: Tensor, step: int, signals: Signals) -> Tensor:
        """Return Eq. 10 of w, (B, T) or (B, T, H); the tokens of a place share its noise."""
        alpha, sigma = self.annealed(step, self.alpha), self.annealed(step, self.sigma)
        if sigma == 0:
            return 1 + alpha * w
        uniform_BT, _ = self.noise(signals, step)
        z_BT = to_normal(uniform_BT)
        return 1 + w * (alpha + sigma * (z_BT if w.dim() == 2 else z_BT[..., None]))


def normalised_surprisal(
    logps_BT: Tensor, mask_BT: Tensor, norm: Norm, others_BX: Tensor | None = None
) -> Tensor:
    """Return w_BT in [0, 1] from -log pi, each row over its own unmasked tokens; 0 elsewhere.

    With `others_BX` it is w of these surprisals, beside the same tokens of the row. If all tokens
    of a row are equally surprising, minmax gives 0, rank and zscore give 1/2 (rank gives 0 to a
    single token).
    """
    # as NaN, tokens outside the mask drop out of a row's quantiles and means
    surprisal_BT = (-logps_BT).masked_fill(~mask_BT.bool(), float("nan"))
    normalise = {"minmax": _minmax, "rank": _rank, "zscore": _zscore}[norm]
    if others_BX is not None:
        return normalise(surprisal_BT, others_BX)
    return normalise(surprisal_BT, surprisal_BT).masked_fill(~mask_BT.bool(), 0)


def _minmax(values_BT: Tensor, asked_BX: Tensor) -> Tensor:
    """Clamp to the 5% and 95% quantiles, then (v - min) / (max - min)."""
    low_B1 = values_BT.nanquantile(LOW_QUANTILE, dim=1, keepdim=True)
    high_B1 = values_BT.nanquantile(HIGH_QUANTILE, dim=1, keepdim=True)
    range_B1 = high_B1 - low_B1
    w_BX = (asked_BX.clamp(low_B1, high_B1) - low_B1) / range_B1
    return w_BX.masked_fill(~(range_B1 > 0), 0)


def _rank(values_BT: Tensor, asked_BX: Tensor) -> Tensor:
    """Return rank / (n - 1); tokens of equal surprisal share the mean of their ranks."""
    import torch

    count_B1 = (~values_BT.isnan()).sum(dim=1, keepdim=True)
    # tokens outside the mask are sorted behind all others
    sorted_BT = values_BT.nan_to_num(nan=torch.inf).sort(dim=1).values
    comparable_BX = asked_BX.nan_to_num(nan=torch.inf).contiguous()
    below_BX = torch.searchsorted(sorted_BT, comparable_BX)
    up_to_BX = torch.searchsorted(sorted_BT, comparable_BX, right=True)
    # between two tokens of the row is half a rank, beyond all of them the last one's
    return ((below_BX + up_to_BX - 1) / 2 / (count_B1 - 1).clamp(min=1)).clamp(0, 1)


def _zscore(values_BT: Tensor, asked_BX: Tensor) -> Tensor:
    """Return the sigmoid of the population z-score."""
    mean_B1 = values_BT.nanmean(dim=1, keepdim=True)
    deviation_B1 = (values_BT - mean_B1).square().nanmean(dim=1, keepdim=True).sqrt()
    z_BX = ((asked_BX - mean_B1) / deviation_B1).masked_fill(~(deviation_B1 > 0), 0)
    return z_BX.sigmoid()
