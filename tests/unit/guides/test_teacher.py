"""The teacher guide's mixture, by hand, and what a guide with a teacher has to have."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from sage_cli.errors import TrainingError
from sage_cli.guides import Guide, Signals, TeacherGuide
from sage_cli.guides.signals import OptionalSignal

REFERENCE_BT = torch.tensor([[0.6, 0.3, 1e-30]], dtype=torch.float64).log()
TEACHER_BT = torch.tensor([[0.15, 0.48, 1e-2]], dtype=torch.float64).log()


def signals() -> Signals:
    known: dict[OptionalSignal, Any] = {
        "reference_logps_BT": REFERENCE_BT,
        "teacher_logps_BT": TEACHER_BT,
    }
    return Signals(REFERENCE_BT, -REFERENCE_BT, torch.ones(1, 3), optional=known)


def test_the_anchor_is_a_geometric_mixture():
    log_q_BT = TeacherGuide(share=0.5).log_q(signals(), 0)
    # sqrt(.15 / .6) = 1/2, sqrt(.48 / .3) = 1.264911, and 10^14, which is clamped to 10
    assert log_q_BT.exp()[0].tolist() == pytest.approx([0.5, math.sqrt(1.6), 10])
    anchor_BT = (REFERENCE_BT + log_q_BT).exp()
    assert anchor_BT[0, :2].tolist() == pytest.approx([math.sqrt(0.15 * 0.6), math.sqrt(0.144)])
    assert TeacherGuide(share=0).log_q(signals(), 0).tolist() == [[0, 0, 0]]
    whole_BT = REFERENCE_BT + TeacherGuide(share=1, q_max=1e40).log_q(signals(), 0)
    torch.testing.assert_close(whole_BT, TEACHER_BT)


def test_without_a_teachers_signal_it_says_so():
    plain = Signals(REFERENCE_BT, -REFERENCE_BT, torch.ones(1, 3))
    with pytest.raises(TrainingError, match="needs reference_logps_BT, teacher_logps_BT, which is"):
        TeacherGuide().log_q(plain, 0)


class Untaught(Guide):
    needs = frozenset({"teacher_logps_BT"})

    def q(self, signals: Signals, step: int) -> torch.Tensor:
        return signals.teacher_logps_BT.exp()


def test_a_guide_that_reads_a_teacher_has_to_name_one():
    assert TeacherGuide.defect() is None
    assert Untaught.defect() == (
        "needs teacher_logps_BT and has no setting that names the teacher",
        'add a field: teacher: str = ""',
    )
    assert TeacherGuide(teacher="a", teacher_revision="b").named_teacher == ("a", "b")
    assert Untaught().named_teacher == ("", None)
