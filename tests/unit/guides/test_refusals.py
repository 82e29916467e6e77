"""A guide that gives nonsense, or looks where it has not asked to, is named at once."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides import BranchGuide, Guide, Signals

LOGPS_BT = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -9.0, -9.0]])
MASK_BT = torch.tensor([[1, 1, 1], [1, 0, 0]])


class Calling(Guide):
    give: Callable[[Signals], Any]

    def q(self, signals, step):
        return self.give(signals)


def giving(q):
    return Calling(give=q)


def signals(logps_BT=LOGPS_BT, **optional):
    return Signals(logps_BT, logps_BT.abs(), MASK_BT, optional=optional)


@pytest.mark.parametrize(
    ("q", "complaint"),
    [
        (lambda s: s.logps_BT[0], r"is \(3,\), and the batch is \(2, 3\)"),
        (lambda s: s.logps_BT[:, :1], r"is \(2, 1\), and"),
        (lambda s: 1.1, "is a float, and"),
        (lambda s: s.logps_BT.numpy(), "is a ndarray, and"),
        # 0 / 0 for the second token, which is the only one with entropy 2
        (lambda s: (s.entropy_BT - 2) / (s.entropy_BT - 2), "is NaN for 1 of the batch's 4 tokens"),
        (lambda s: 1 / (s.entropy_BT - 2), "is infinite for 1 of the batch's 4 tokens"),
    ],
)
def test_wrong_shapes_types_and_nan(q, complaint):
    with pytest.raises(TrainingError, match=rf"guide Calling \(.*test_refusals\) {complaint}"):
        giving(q).log_q(signals(), 0)


def test_nan_outside_the_mask_or_from_the_model_is_not_the_guides_fault():
    outside = giving(lambda s: torch.where(s.mask_BT.bool(), 1.2, torch.nan))
    expected_BT = MASK_BT * math.log(1.2)
    torch.testing.assert_close(outside.log_q(signals(), 0), expected_BT)
    broken_BT = LOGPS_BT.clone()
    broken_BT[0, 0] = torch.nan
    diverged = Signals(broken_BT, LOGPS_BT.abs(), MASK_BT)
    assert giving(lambda s: 1 - s.logps_BT).log_q(diverged, 0)[0, 0].isnan()


def raising(s):
    return s.logps_BT @ s.logps_BT


def test_what_raises_inside_is_named_with_its_line():
    line = raising.__code__.co_firstlineno + 1
    said = rf"^q of guide Calling \(.*\) fails: RuntimeError: .* \(test_refusals.py, line {line}\)$"
    with pytest.raises(ConfigurationError, match=said):
        giving(raising).log_q(signals(), 0)


def test_a_lack_of_memory_is_the_trainings_to_explain():
    def full(s):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        giving(full).log_q(signals(), 0)


def test_a_bug_of_sages_own_guides_stays_one(monkeypatch):
    monkeypatch.setattr(BranchGuide, "q", lambda *_: {}["q"])
    with pytest.raises(KeyError):
        BranchGuide(tau=1.2, rho=0.3).log_q(signals(), 0)


def test_grades_and_numbers_of_another_type_are_factors():
    # 1 and 0, of which the clamp [0.6, 1.4] makes 1 and 0.6; 2 becomes 1.4
    for q, first in ((lambda s: s.entropy_BT < 1.5, 1.0), (lambda s: s.mask_BT * 2, 1.4)):
        log_q_BT = giving(q).log_q(signals(), 0)
        assert log_q_BT.dtype == LOGPS_BT.dtype
        assert log_q_BT[0, 0].item() == pytest.approx(math.log(first), abs=1e-6)
        assert log_q_BT[1, 1:].tolist() == [0, 0]


def test_only_what_was_asked_for_can_be_read(monkeypatch):
    known = {"token_ids_BT": MASK_BT, "reference_logps_BT": LOGPS_BT}
    nosy = giving(lambda s: s.reference_logps_BT)
    with pytest.raises(
        TrainingError, match=r"Calling .*reads reference_logps_BT, which it did not declare"
    ):
        nosy.log_q(signals(**known), 0)
    monkeypatch.setattr(Calling, "needs", frozenset({"reference_logps_BT"}))
    assert nosy.log_q(signals(**known), 0).shape == LOGPS_BT.shape
    assert (nosy.reads_reference, nosy.reads_reference_entropy) == (True, False)
    with pytest.raises(TrainingError, match=r"Calling .* needs reference_logps_BT, which is not"):
        nosy.log_q(signals(), 0)
