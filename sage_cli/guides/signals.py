"""Signals that a guide may read: those of one batch of completions."""

# ruff: noqa: N802 (shape suffixes are part of a property's name)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from sage_cli.errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor

TokenSignal = Literal[
    "token_ids_BT",
    "policy_logps_BT",
    "policy_entropy_BT",
    "reference_logps_BT",
    "reference_entropy_BT",
    "reference_tilted_logps_BT",
]
RowSignal = Literal["right_B", "rewards_B", "group_right_B", "problem_ids_B"]
OptionalSignal = Literal[TokenSignal, RowSignal]
ROW_SIGNALS: tuple[RowSignal, ...] = get_args(RowSignal)
OPTIONAL_SIGNALS: tuple[OptionalSignal, ...] = get_args(OptionalSignal)

Known = Mapping[OptionalSignal, "Tensor | tuple[str, ...]"]
"""Optional signals by name: tensors, and problem ids as strings."""


@dataclass(frozen=True)
class Signals:
    """Per-token signals of B completions of at most T tokens, without gradients.

    `logps_BT` are log-probabilities of the sampled tokens and `entropy_BT` the entropies H_t of
    the distributions they come from (Eq. 12), both in nats and of the model that the guide's
    `signal` names; `mask_BT` is 1 on completion tokens. `row_ids_B` is each row's index in the
    whole generation batch, so that noise depends neither on micro-batches nor on processes;
    without it rows count from 0.

    `optional` holds what a guide asks for by its `needs`: the completions' token ids,
    log-probabilities and entropies of the policy and of the reference, both at once, and of each
    row the grade, the reward, its group's share of right completions, and its problem. They are
    read by their names (`signals.token_ids_BT`); what wasn't asked for raises TrainingError, which
    says who the `reader` is.
    """

    logps_BT: Tensor
    entropy_BT: Tensor
    mask_BT: Tensor
    row_ids_B: Tensor | None = None
    optional: Known = field(default_factory=dict)
    reader: str = "a guide"

    @property
    def token_ids_BT(self) -> Tensor:
        """Ids of the completions' tokens; anything outside the mask."""
        return self._tensor("token_ids_BT")

    @property
    def policy_logps_BT(self) -> Tensor:
        """log pi of the sampled tokens under the current policy."""
        return self._tensor("policy_logps_BT")

    @property
    def policy_entropy_BT(self) -> Tensor:
        """The current policy's entropies."""
        return self._tensor("policy_entropy_BT")

    @property
    def reference_logps_BT(self) -> Tensor:
        """log pi_ref of the sampled tokens, before any shaping."""
        return self._tensor("reference_logps_BT")

    @property
    def reference_entropy_BT(self) -> Tensor:
        """The frozen reference's entropies."""
        return self._tensor("reference_entropy_BT")

    @property
    def reference_tilted_logps_BT(self) -> Tensor:
        """log of pi_ref^phi / sum_v pi_ref(v)^phi, phi the guide's exponent for the row's grade."""
        return self._tensor("reference_tilted_logps_BT")

    @property
    def right_B(self) -> Tensor:
        """True for right completions, False for wrong, unparsable and unfinished ones."""
        return self._tensor("right_B")

    @property
    def rewards_B(self) -> Tensor:
        """Each completion's reward: 1 for a right one, plus punishments where there are some."""
        return self._tensor("rewards_B")

    @property
    def group_right_B(self) -> Tensor:
        """Share of right completions among the N that the row's prompt had first."""
        return self._tensor("group_right_B")

    @property
    def problem_ids_B(self) -> tuple[str, ...]:
        """The id of each completion's problem."""
        ids: tuple[str, ...] = self._asked_for("problem_ids_B")
        return ids

    def only(self, needs: Iterable[OptionalSignal], reader: str) -> Signals:
        """Return a copy with the optional signals in `needs` alone; KeyError if one is missing."""
        return replace(self, optional={name: self.optional[name] for name in needs}, reader=reader)

    def _tensor(self, name: OptionalSignal) -> Tensor:
        tensor: Tensor = self._asked_for(name)
        return tensor

    def _asked_for(self, name: OptionalSignal) -> Any:
        if name not in self.optional:
            raise TrainingError(
                f"{self.reader} reads {name} and has not asked for it",
                f"add it to the guide's needs: needs = frozenset({{{name!r}}})",
            )
        return self.optional[name]
