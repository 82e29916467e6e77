"""What every guide owes the trainer, as a test class to inherit.

    class TestMyGuide(GuideContract):
        def make(self) -> Guide:
            return MyGuide(strength=0.2)

needs pytest (or any runner that calls `test_*` methods) and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from sage_cli.guides.guide import Guide
from sage_cli.guides.signals import Signals

ROWS, TOKENS, STEP = 5, 23, 7


class GuideContract(ABC):
    """Positive, inside the clamp, 1 outside the mask, no gradient, deterministic, shape kept."""

    @abstractmethod
    def make(self) -> Guide:
        """A new instance of the guide under test."""

    def signals(self) -> Signals:
        """A batch whose rows have 23, 18, 13, 8 and 3 tokens."""
        generator = torch.Generator().manual_seed(11)
        entropy_BT = 4 * torch.rand(ROWS, TOKENS, generator=generator)
        logps_BT = -3 * torch.rand(ROWS, TOKENS, generator=generator)
        lengths_B1 = torch.arange(TOKENS, 0, -5)[:, None]
        mask_BT = (torch.arange(TOKENS) < lengths_B1).long()
        return Signals(logps_BT, entropy_BT, mask_BT, torch.arange(ROWS))

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
        """Prompts, padding and tools' tokens aren't shaped, whatever their signals hold."""
        signals = self.signals()
        outside_BT = ~signals.mask_BT.bool()
        odd = Signals(
            signals.logps_BT.masked_fill(outside_BT, -1e4),
            signals.entropy_BT.masked_fill(outside_BT, 1e4),
            signals.mask_BT,
            signals.row_ids_B,
        )
        log_q_BT = self.make().log_q(odd, STEP)
        assert (log_q_BT[outside_BT] == 0).all()
        assert torch.equal(log_q_BT, self.make().log_q(signals, STEP))

    def test_no_gradient_flows_through_q(self) -> None:
        """Eq. 3: q is fixed within an iteration."""
        signals = self.signals()
        signals.logps_BT.requires_grad_()
        signals.entropy_BT.requires_grad_()
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
            alone = Signals(
                signals.logps_BT[row : row + 1, :length],
                signals.entropy_BT[row : row + 1, :length],
                signals.mask_BT[row : row + 1, :length],
                torch.tensor([row]),
            )
            log_q_1T = self.make().log_q(alone, STEP)
            torch.testing.assert_close(log_q_1T, whole_BT[row : row + 1, :length])
