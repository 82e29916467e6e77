"""The contract of every guide with the trainer, as a test class to inherit.

    class TestMyGuide(GuideContract):
        def make(self) -> Guide:
            return MyGuide(strength=0.2)

needs pytest (or any runner that calls `test_*` methods) and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sage_cli.guides.guide import ROW_SIGNALS, Guide, Signals

ROWS, TOKENS, VOCABULARY, STEP = 5, 23, 50, 7


class GuideContract(ABC):
    """Positive, inside the clamp, 1 outside the mask, no gradient, deterministic, shape kept.

    Each test provides all optional signals, so a guide fails if it reads one that is not among
    its `needs`.
    """

    @abstractmethod
    def make(self) -> Guide:
        """Return a new instance of the guide under test."""

    def signals(self) -> Signals:
        """Return a batch whose rows have 23, 18, 13, 8 and 3 tokens."""
        generator = torch.Generator().manual_seed(11)

        def draw() -> Tensor:
            return torch.rand(ROWS, TOKENS, generator=generator)

        entropy_BT, logps_BT = 4 * draw(), -3 * draw()
        lengths_B1 = torch.arange(TOKENS, 0, -5)[:, None]
        mask_BT = (torch.arange(TOKENS) < lengths_B1).long()
        optional: dict[str, Tensor | tuple[str, ...]] = {
            name: -3 * draw() if "logps" in name else 4 * draw()
            for name in self.make().token_signals()
        }
        optional |= {
            "token_ids_BT": (VOCABULARY * draw()).long(),
            "policy_logps_BT": logps_BT.clone(),
            "policy_entropy_BT": entropy_BT.clone(),
            "right_B": torch.arange(ROWS) % 2 == 0,
            "rewards_B": (torch.arange(ROWS) % 2 == 0).float() - 0.25,
            "group_right_B": torch.tensor([2 / 3, 2 / 3, 2 / 3, 0.5, 0.5]),
            "problem_ids_B": ("a", "a", "a", "b", "b"),
        }
        return Signals(logps_BT, entropy_BT, mask_BT, torch.arange(ROWS), optional)

    def test_the_class_can_be_registered(self) -> None:
        """`q` alone is implemented, and `needs` names signals that there are."""
        assert type(self.make()).defect() is None

    def test_shape_and_type_are_kept(self) -> None:
        """log q_BT is laid out as the log-probabilities are."""
        signals = self.signals()
        log_q_BT = self.make().log_q(signals, STEP)
        assert log_q_BT.shape == signals.logps_BT.shape
        assert log_q_BT.dtype == signals.logps_BT.dtype

    def test_inside_the_clamp_and_finite(self) -> None:
        """q_min <= q <= q_max, so q is positive and log q finite."""
        guide = self.make()
        q_BT = guide.log_q(self.signals(), STEP).double().exp()
        assert torch.isfinite(q_BT).all()
        assert (q_BT >= guide.q_min - 1e-6).all()
        assert (q_BT <= guide.q_max + 1e-6).all()

    def test_one_outside_the_mask(self) -> None:
        """Prompts, padding and tools' tokens are not shaped, whatever their signals hold."""
        signals = self.signals()
        outside_BT = ~signals.mask_BT.bool()

        def odd(name: str, values_BT: Tensor) -> Tensor:
            filling = 0 if name.startswith("token") else -1e4 if "logps" in name else 1e4
            return values_BT.masked_fill(outside_BT, filling)

        log_q_BT = self.make().log_q(_each(signals, odd), STEP)
        assert (log_q_BT[outside_BT] == 0).all()
        assert torch.equal(log_q_BT, self.make().log_q(signals, STEP))

    def test_no_gradient_flows_through_q(self) -> None:
        """Eq. 3: q is fixed within an iteration."""

        def tracked(_: str, values_BT: Tensor) -> Tensor:
            floating = values_BT.is_floating_point()
            return values_BT.requires_grad_() if floating else values_BT

        signals = _each(self.signals(), tracked)
        assert signals.logps_BT.requires_grad
        assert not self.make().log_q(signals, STEP).requires_grad

    def test_deterministic_given_seed_and_step(self) -> None:
        """Two instances agree, and the global generator is neither read nor moved."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first_BT = self.make().log_q(self.signals(), STEP)
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(1)
        assert torch.equal(first_BT, self.make().log_q(self.signals(), STEP))

    def test_rows_are_independent_of_micro_batches(self) -> None:
        """A row alone, padded less, gets the q that it gets inside the batch."""
        signals = self.signals()
        whole_BT = self.make().log_q(signals, STEP)
        for row, length in enumerate(signals.mask_BT.sum(dim=1).tolist()):
            rows = slice(row, row + 1)
            unpadded = (rows, slice(length))

            def alone(
                _: str, values_BT: Tensor, unpadded: tuple[slice, slice] = unpadded
            ) -> Tensor:
                return values_BT[unpadded]

            def alone_row(values: Any, rows: slice = rows) -> Any:
                return values[rows]

            row_alone = replace(
                _each(signals, alone, alone_row),
                mask_BT=signals.mask_BT[unpadded],
                row_ids_B=torch.tensor([row]),
            )
            torch.testing.assert_close(self.make().log_q(row_alone, STEP), whole_BT[unpadded])


def _each(
    signals: Signals,
    change: Callable[[str, Tensor], Tensor],
    change_row: Callable[[Any], Any] = lambda values: values,
) -> Signals:
    """Return the signals with `change` applied to each token's but the mask, by name.

    `change_row` is applied to those of rows.
    """
    optional: dict[str, Any] = {**signals.optional}
    for name, values in optional.items():
        optional[name] = change_row(values) if name in ROW_SIGNALS else change(name, values)
    return replace(
        signals,
        logps_BT=change("logps_BT", signals.logps_BT),
        entropy_BT=change("entropy_BT", signals.entropy_BT),
        optional=optional,
    )
