"""The table of token signals: what each is of, and how it follows from a model's logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

Measure = Callable[["Tensor", "Tensor"], "Tensor"]
"""From logits (X, V) of X states, in single precision and divided by sampling's temperature, and
the tokens (X,) that were chosen there, to a number (X,) for each."""
_LEAST_EXPONENT = 2.0**-20
"""Stands for an exponent of 0: logits that differ by 40 differ by 4e-5 then."""


@dataclass(frozen=True)
class TokenSignal:
    """A number for each token of a completion.

    `of` says whose it is: the completion's own, or of the model that computes it. Without a
    `measure` every pass over that model gives it. With one, the trainer and the reports compute it
    by this function where a guide's `needs` names it, and nowhere else.
    """

    of: Literal["completion", "policy", "reference"]
    meaning: str
    measure: Measure | None = None


TOKEN_SIGNALS: Mapping[str, TokenSignal] = {
    "token_ids_BT": TokenSignal(
        "completion", "Ids of the completions' tokens; anything outside the mask."
    ),
    "policy_logps_BT": TokenSignal(
        "policy", "log pi of the sampled tokens under the current policy."
    ),
    "policy_entropy_BT": TokenSignal("policy", "The current policy's entropies."),
    "reference_logps_BT": TokenSignal(
        "reference", "log pi_ref of the sampled tokens, before any shaping."
    ),
    "reference_entropy_BT": TokenSignal("reference", "The frozen reference's entropies."),
    "reference_tilted_logps_BT": TokenSignal(
        "reference",
        "log of pi_ref^phi / sum_v pi_ref(v)^phi, phi the guide's exponent for the row's grade.",
    ),
}


def tilted_logps(logits_XV: Tensor, chosen_X: Tensor, exponent: float) -> Tensor:
    """Return log-probabilities (X,) of the chosen tokens under p^exponent, normalised."""
    logps_XV = (logits_XV * max(exponent, _LEAST_EXPONENT)).log_softmax(dim=-1)
    return logps_XV.gather(1, chosen_X[:, None])[:, 0]


def tilted_temperature(temperature: float, exponent: float) -> float:
    """Return the temperature at which a model is p^exponent, normalised, p at `temperature`."""
    return temperature / max(exponent, _LEAST_EXPONENT)
