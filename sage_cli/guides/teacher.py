"""Teacher guide: the anchor leans from the reference towards a teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.guides.guide import Guide
from sage_cli.guides.signals import Signals

if TYPE_CHECKING:
    from torch import Tensor


class TeacherGuide(Guide):
    """q = (pi_T / pi_ref)^share, so that q pi_ref = pi_T^share pi_ref^(1 - share)."""

    name: Literal["teacher"] = "teacher"
    teacher: str = ""
    """The teacher: a run, RUN@step, a model folder or a model of the Hub, with the policy's
    tokenizer. It reads every completion once more."""
    teacher_revision: str | None = None
    """Revision of a teacher from the Hub; None is the newest one."""
    share: float = Field(0.5, ge=0, le=1)
    """Share of the teacher in the geometric mixture: 0 is the reference, 1 the teacher."""
    q_min: float = Field(0.1, gt=0)
    """Lower bound of q, for tokens that the teacher would hardly take."""
    q_max: float = Field(10.0, gt=0)
    """Upper bound of q, for tokens that the reference would hardly take."""
    needs = frozenset({"reference_logps_BT", "teacher_logps_BT"})

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Return the teacher's ratio to the reference, raised to its share."""
        gap_BT = signals.teacher_logps_BT - signals.reference_logps_BT
        # infinite where the reference's probability is 0 to the precision of the type
        q_BT: Tensor = (self.share * gap_BT).exp().clamp(max=2 * self.q_max)
        return q_BT
