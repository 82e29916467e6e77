"""GPU hours, from throughputs that are stated, and what a guide's teacher adds to a training."""

from __future__ import annotations

from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.guides import Guide
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import teacher_policy
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


TOKENS_PER_S = {
    "Qwen/Qwen2.5-Math-7B": (4000, 4000),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": (4000, 4000),
    "Qwen/Qwen2.5-3B-Instruct": (8000, 7000),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": (14000, 12000),
}
"""Tokens a second that one GPU of 80 GB samples, and that it trains on, by model: stated, to tell
hours from weeks, and not measured (`benchmarks/gpu.py` measures them)."""


def gpu_hours(model: PretrainedModel | ScratchModel, *, sampled: int, trained: int = 0) -> float:
    """Hours of one GPU for so many tokens; 0 for a model whose throughput isn't stated."""
    rates = TOKENS_PER_S.get(model.path) if isinstance(model, PretrainedModel) else None
    return (sampled / rates[0] + trained / rates[1]) / 3600 if rates else 0.0


def hours_fact(
    model: PretrainedModel | ScratchModel, *, sampled: int, trained: int = 0
) -> dict[str, str]:
    """The hours in words, with their source; nothing where no throughput is stated."""
    hours = gpu_hours(model, sampled=sampled, trained=trained)
    if not isinstance(model, PretrainedModel) or not hours:
        return {}
    rates = TOKENS_PER_S[model.path]
    training = f", trained on at {rates[1]:,}" if trained else ""
    return {
        "GPU hours": f"{hours:,.1f} at most, if {rates[0]:,} tokens/s are sampled{training} "
        "(stated for 80 GB, not measured)"
    }
