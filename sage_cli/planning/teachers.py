"""What a guide's teacher adds to a training: its weights, and a pass over every completion."""

from __future__ import annotations

from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.guides import Guide
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.teacher import teacher_policy
from sage_cli.planning.shape import Shape, shape_in_files, shape_of
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel
from sage_cli.store.runs.run import Runs

FORWARD_SHARE = 1 / 3
"""Share of a forward pass in a token's training, whose backward pass costs two."""


def teacher_facts(teacher: Policy | None) -> dict[str, str]:
    """Return the teacher that a guide reads, if it does."""
    if teacher is None:
        return {}
    return {"teacher": f"{teacher.word}; reads every completion once"}


def teacher_shape(teacher: Policy | None) -> Shape | None:
    """Return the teacher's shape; None without one, or where no file here tells it."""
    if teacher is None:
        return None
    if teacher.section is not None and teacher.run is None:
        return shape_of(teacher.section)
    try:
        return shape_in_files(teacher.files)
    except DataError:
        return None


def teacher_shape_of(
    guide: Guide, root: Path, model: PretrainedModel | ScratchModel
) -> Shape | None:
    """Return the shape of the teacher that `guide` names, with `root` the folder of runs."""
    return teacher_shape(teacher_policy(guide, Runs(root), model))


def tokens_read(tokens: int, model: PretrainedModel | ScratchModel, teacher: Shape | None) -> int:
    """Return the trained tokens that a teacher's pass over `tokens` costs as much as."""
    own = shape_of(model)
    if teacher is None or own is None:
        return 0
    return round(tokens * FORWARD_SHARE * teacher.parameters / own.parameters)
