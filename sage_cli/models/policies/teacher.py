"""The teacher whose log-probabilities a guide reads: which model it is, and that it fits."""

from __future__ import annotations

from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide
from sage_cli.models.policies.compatibility import require_own_weights
from sage_cli.models.policies.names import Model, named_policy
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.runs.run import Runs


def teacher_policy(guide: Guide, runs: Runs, model: Model) -> Policy | None:
    """Return the model that `guide.teacher` names; None for a guide that reads no teacher.

    Raises ConfigurationError where none is named, and StoreError for a run that isn't there.
    """
    if not guide.reads_teacher:
        return None
    name, revision = guide.named_teacher
    if not name:
        raise ConfigurationError(
            f"guide '{guide.name}' reads a teacher, and guide.teacher is empty",
            "name a run or a model: --set guide.teacher=RUN",
        )
    teacher = named_policy(name, runs, model)
    if revision is None or teacher.run is not None:
        return teacher
    section = (teacher.section or PretrainedModel()).model_copy(update={"revision": revision})
    return Policy(name, section=section)


def guide_determinants(spec: RlSpec, runs: Runs) -> dict[str, Any]:
    """Return the settings of the guide that decide a result, the teacher by its weights."""
    settings = spec.guide.determinants()
    teacher = teacher_policy(spec.guide, runs, spec.model)
    if teacher is None:
        return settings
    return {**settings, "teacher": teacher.identity, "teacher_revision": None}


def require_fit_teacher(teacher: Policy | None, start: Policy) -> None:
    """Raise SageError for a teacher of another tokenizer, or whose weights have been changed."""
    if teacher is not None:
        refuse_other_tokenizer(teacher, start)
        require_own_weights(teacher)


def refuse_other_tokenizer(teacher: Policy, start: Policy, role: str = "teacher") -> None:
    """Raise ConfigurationError for a teacher, or another `role`, with other tokens than `start`."""
    if teacher.path == start.path:
        return
    own, other = start.tokenizer().get_vocab(), teacher.tokenizer().get_vocab()
    if own == other:
        return
    differing = len(own.items() ^ other.items())
    raise ConfigurationError(
        f"the {role} {teacher.label} has another tokenizer than {start.label} "
        f"({len(other)} and {len(own)} entries, of which {differing} differ)",
        f"name a {role} of the same family: a run from the same model, or a larger one with its "
        "tokenizer",
    )
