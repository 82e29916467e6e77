"""What a training reads besides its policy: the reference, a guide's teacher, a replayed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.models.folders import adapter_base, is_adapter
from sage_cli.models.policies.compatibility import require_own_weights
from sage_cli.models.policies.names import Model, named_policy
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import PretrainedModel, kernel_arguments, trained_dtype
from sage_cli.store.runs.run import Run, Runs, run_of


def reference_policy(start: Policy, recipe: RlSpec) -> Policy:
    """The frozen model that `anchor.reference` means for a training from `start`.

    `initial` is `start` itself. `base` is the model below its adapter, or the one that its run
    began with; `start` again where there is neither, and under LoRA where it has no adapter yet.
    Raises ConfigurationError where nothing but random weights came before.
    """
    folder = Path(start.path)
    if recipe.anchor.reference == "initial":
        return start
    if is_adapter(folder):
        below = adapter_base(folder)
        return Policy(below, run_of(Path(below)), section=start.pretrained)
    if recipe.model.tuning == "lora" or start.run is None:
        return start
    if start.pretrained is None:
        raise ConfigurationError(
            f"anchor.reference is 'base', and {start.label} began with random weights",
            "use --set anchor.reference=initial",
        )
    return Policy(start.pretrained.path, section=start.pretrained)


def reference_of(policy: Policy, recipe: RlSpec, runs: Runs) -> Policy:
    """Return the frozen model that the policy of a run of RL was anchored to.

    Raises ConfigurationError for a policy that was trained without a reference.
    """
    parent = policy.run.manifest.get("parent") if policy.run is not None else None
    if parent is None:
        raise ConfigurationError(
            f"guide.signal is 'reference', and {policy.label} was trained without a reference",
            "use --set guide.signal=policy",
        )
    known = any(run.id == parent for run in runs.all())
    section = recipe.model if isinstance(recipe.model, PretrainedModel) else None
    start = named_policy(parent, runs, section) if known else Policy(parent, section=section)
    return reference_policy(start, recipe)


def policy_and_reference(recipe: RlSpec, base: Policy) -> tuple[Any, Path | None]:
    """The trainable policy, and the folder of a reference that isn't inside the policy itself."""
    from sage_cli.models.load import attach_lora

    model = base.model(
        dtype=trained_dtype(recipe.model),
        trainable=True,
        kernels=kernel_arguments(recipe.model),
    )
    has_adapter = hasattr(model, "peft_config")
    if recipe.model.tuning == "full":
        held = recipe.anchor.kl == "reverse"
        return model, reference_policy(base, recipe).folder if held else None
    return (model if has_adapter else attach_lora(model, recipe.model.lora)), None


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


def replay_source(rl: Method, runs: Runs) -> Run | None:
    """Return the run `rl.replay.run`; None if a training replays its own completions, or none.

    Raises StoreError if it is not finished: its completions would change.
    """
    if not isinstance(rl, PolicyGradient) or rl.replay.run is None:
        return None
    run = runs.find(rl.replay.run)
    run.require_whole()
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished, and rl.replay.run takes its completions",
            "type its command again to continue it",
        )
    return run


def replay_determinants(rl: Method, runs: Runs) -> dict[str, Any]:
    """Return the method's settings that decide a result, the replayed run by its identity."""
    settings, source = rl.determinants(), replay_source(rl, runs)
    if source is None:
        return settings
    return {**settings, "replay": {**settings["replay"], "run": source.identity or source.id}}


def require_fit_source(spec: RlSpec, start: Policy, runs: Runs) -> None:
    """Raise SageError for a replayed run whose completions `start` can't learn from.

    They were sampled with another tokenizer or prompt template, or without log-probabilities.
    """
    source = replay_source(spec.rl, runs)
    if source is None:
        return
    template = PromptTemplate.from_section(spec.prompt, start.tokenizer_facts).hash
    other = source.manifest.get("template")
    if other not in (None, template):
        raise StoreError(
            f"{source.id} was trained with prompt template {other}, and this training uses "
            f"{template}: its completions answer other prompts (rl.replay.run)",
            "name a run with the same prompt settings",
        )
    refuse_other_tokenizer(Policy.of_run(source), start, role="replayed run")
    logps = source.completions().read()["policy_logps"]
    if logps.null_count == len(logps):
        raise StoreError(
            f"{source.id} keeps no completion with log-probabilities, by which rl.replay weighs "
            "them",
            "name a run that was trained with --set tracking.rollouts=all",
        )
