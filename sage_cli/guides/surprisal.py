"""Row-normalised surprisal w in [0, 1]: which of a completion's tokens were unexpected (Eq. 10)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LOW_QUANTILE, HIGH_QUANTILE = 0.05, 0.95


def normalised_surprisal(logps_BT: Tensor, mask_BT: Tensor, norm: str) -> Tensor:
    """w_BT in [0, 1] from -log pi, each row over its own unmasked tokens; 0 outside the mask.

    `norm` is `minmax`, `rank` or `zscore`. Where all of a row's tokens are equally surprising,
    minmax gives 0, rank and zscore give 1/2 (rank gives 0 to a single token).
    """
    valid_BT = mask_BT.bool()
    surprisal_BT = torch.where(valid_BT, -logps_BT, torch.nan)
    w_BT = NORMS[norm](surprisal_BT)
    return torch.where(valid_BT, w_BT, torch.zeros_like(w_BT))


def _minmax(values_BT: Tensor) -> Tensor:
    """Clamp to the 5 % and 95 % quantiles, then (v - min) / (max - min)."""
    low_B1 = values_BT.nanquantile(LOW_QUANTILE, dim=1, keepdim=True)
    high_B1 = values_BT.nanquantile(HIGH_QUANTILE, dim=1, keepdim=True)
    spread_B1 = high_B1 - low_B1
    w_BT = (values_BT.clamp(low_B1, high_B1) - low_B1) / spread_B1
    return torch.where(spread_B1 > 0, w_BT, torch.zeros_like(w_BT))


def _rank(values_BT: Tensor) -> Tensor:
    """Rank / (n - 1); tokens of equal surprisal share the mean of their ranks."""
    count_B1 = (~values_BT.isnan()).sum(dim=1, keepdim=True)
    comparable_BT = values_BT.nan_to_num(nan=torch.inf)
    sorted_BT = comparable_BT.sort(dim=1).values
    below_BT = torch.searchsorted(sorted_BT, comparable_BT)
    up_to_BT = torch.searchsorted(sorted_BT, comparable_BT, right=True)
    return (below_BT + up_to_BT - 1) / 2 / (count_B1 - 1).clamp(min=1)


def _zscore(values_BT: Tensor) -> Tensor:
    """The sigmoid of the population z-score."""
    centred_BT = values_BT - values_BT.nanmean(dim=1, keepdim=True)
    deviation_B1 = centred_BT.square().nanmean(dim=1, keepdim=True).sqrt()
    z_BT = torch.where(deviation_B1 > 0, centred_BT / deviation_B1, torch.zeros_like(centred_BT))
    return torch.sigmoid(z_BT)


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "minmax": _minmax,
    "rank": _rank,
    "zscore": _zscore,
}
