"""The frozen model that a policy is anchored to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.load import STORED
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, SageError
from sage_cli.models.config_json import model_config
from sage_cli.models.folders import adapter_base, embedding_rows, is_adapter, require_whole_weights
from sage_cli.models.hub_cache import is_cached, is_hub_name
from sage_cli.models.policy import Policy, named_policy
from sage_cli.models.tokenizer_facts import stored_tokens
from sage_cli.settings.anchor import OWN_REFERENCES
from sage_cli.settings.model import PretrainedModel, kernel_arguments, trained_dtype
from sage_cli.store.run import Runs, run_of


def reference_policy(start: Policy, config: SageConfig) -> Policy:
    """Return the frozen model that `anchor.reference` means for a training from `start`.

    `initial` is `start` itself. `base` is the model below its adapter, or the one that its run
    began with; `start` again where there is neither, and under LoRA where it has no adapter yet.
    Anything else is a teacher. Raises ConfigurationError where nothing but random weights came
    before.
    """
    folder = Path(start.path)
    if (teacher := teacher_of(config)) is not None:
        return teacher
    if config.anchor.reference == "initial":
        return start
    if is_adapter(folder):
        below = adapter_base(folder)
        return Policy(below, run_of(Path(below)), section=start.pretrained)
    if config.model.tuning == "lora" or start.run is None:
        return start
    if start.pretrained is None:
        raise ConfigurationError(
            f"anchor.reference is 'pre-sft', but {start.label} was trained from random weights",
            "use --set anchor.reference=initial",
        )
    return Policy(start.pretrained.path, section=start.pretrained)


def teacher_of(config: SageConfig) -> Policy | None:
    """Return the model that `anchor.reference` names; None where it means one of the policy's own.

    A stored configuration alone fetches nothing from the Hub. Raises ConfigurationError for a name
    that means no model here, and DataError for weights that are incomplete.
    """
    name = config.anchor.teacher
    if name is None:
        return None
    if config.origin("anchor.reference") == STORED:
        _require_here(name)
    try:
        teacher = named_policy(name, Runs(config.run.root), config.model)
    except SageError as error:
        words = " nor ".join(OWN_REFERENCES)
        raise ConfigurationError(
            f"anchor.reference is '{name}', which is neither {words} nor a model: {error.cause}",
            "set anchor.reference to one of these, a model's folder, ORG/MODEL or a finished run",
        ) from error
    teacher.require_weights()
    require_whole_weights(teacher.path)
    return teacher


def _require_here(name: str) -> None:
    """Raise ConfigurationError for a teacher, or the base of its adapter, that isn't here whole."""
    below = [adapter_base(Path(name))] if is_adapter(Path(name)) else []
    for model in (name, *below):
        if is_hub_name(model) and not is_cached(model):
            raise ConfigurationError(
                f"the stored configuration has the teacher {model}, which isn't on this machine, "
                "and a stored configuration can't have it fetched",
                f"add --set anchor.reference={name} to fetch it",
            )


def check_teacher(teacher: Policy, policy: Policy) -> None:
    """Refuse a teacher whose tokens have other ids than the policy's, or that lacks some of them.

    Files alone are asked where both have files that tell.
    """
    ours, theirs = _token_ids(policy, teacher)
    if ours != theirs:
        differing = sorted({token for token, _ in ours.items() ^ theirs.items()})
        shown = ", ".join(repr(token) for token in differing[:3])
        raise ConfigurationError(
            f"the teacher {teacher.label} has another vocabulary than {policy.label}: "
            f"{len(differing):,} tokens differ in their ids or are missing in one ({shown})",
            "choose a teacher with the policy's tokenizer, added and special tokens included: "
            "log-probabilities are compared token by token",
        )
    entries, rows = _entries(ours, policy), _rows(teacher)
    if rows is not None and rows < entries:
        raise ConfigurationError(
            f"the teacher {teacher.label} has {rows:,} entries in its output, and its tokenizer "
            f"{entries:,}: it is another model's, or was enlarged without it",
            "resize the teacher's embeddings, or choose another",
        )


def _token_ids(policy: Policy, teacher: Policy) -> list[Mapping[str, int]]:
    """Return the ids of both by token, read in the same way."""
    ours, theirs = stored_tokens(policy.files), stored_tokens(teacher.files)
    if ours is None or theirs is None:
        return [model.tokenizer.get_vocab() for model in (policy, teacher)]
    return [ours[0], theirs[0]]


def shared_vocabulary(policy: Policy, teacher: Policy) -> int | None:
    """Return how many entries of the output the tokens of both fill; None if they fill all of both.

    Models pad their output to a round number of entries, each to its own.
    """
    ids, _ = _token_ids(policy, teacher)
    entries = _entries(ids, policy)
    return None if _rows(policy) == _rows(teacher) == entries else entries


def _entries(ids: Mapping[str, int], policy: Policy) -> int:
    """Return how many entries the tokens fill; special ones beyond a policy's output are unused."""
    entries, rows = max(ids.values()) + 1, _rows(policy)
    return entries if rows is None else min(entries, rows)


def _rows(model: Policy) -> int | None:
    """Return how many entries a model's output has, as far as its files say."""
    files = model.files
    rows = embedding_rows(files) if is_adapter(files) else None
    return rows or model_config(str(files)).get("vocab_size")


def reference_of(policy: Policy, config: SageConfig, runs: Runs) -> Policy:
    """Return the frozen model that the policy of a run of RL was anchored to.

    Raises ConfigurationError for a policy that was trained without a reference.
    """
    parent = policy.run.read_manifest().get("parent") if policy.run is not None else None
    if parent is None:
        raise ConfigurationError(
            f"guide.signal is 'reference', and {policy.label} was trained without a reference",
            "use --set guide.signal=policy",
        )
    is_run = any(run.id == parent for run in runs.all())
    section = config.model if isinstance(config.model, PretrainedModel) else None
    start = named_policy(parent, runs, section) if is_run else Policy(parent, section=section)
    return reference_policy(start, config)


def policy_and_reference(config: SageConfig, base: Policy) -> tuple[Any, Path | None]:
    """The trainable policy, and the folder of a reference that isn't inside the policy itself.

    A teacher has no folder here: `load_teacher` loads it.
    """
    from sage_cli.models.loading import attach_lora

    model = base.model(
        dtype=trained_dtype(config.model),
        trainable=True,
        kernels=kernel_arguments(config.model),
        verify_later=True,  # the trainer waits before its first update
    )
    has_adapter = hasattr(model, "peft_config")
    if config.model.tuning == "full":
        held = config.anchor.kl == "reverse" or config.rl.keeps_reference
        own = held and config.anchor.teacher is None
        return model, reference_policy(base, config).folder if own else None
    return (model if has_adapter else attach_lora(model, config.model.lora)), None
