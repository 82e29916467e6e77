"""Errors for starts and evaluations that don't fit together, before anything is written."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.architecture import Facts, differences, facts_of_folder, facts_of_section
from sage_cli.models.folders import adapter_base, is_adapter
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import (
    ModelSection,
    PretrainedModel,
    PromptSection,
    ScratchModel,
)
from sage_cli.store.runs.run import Run, Runs, run_of

_MODEL: TypeAdapter[PretrainedModel | ScratchModel] = TypeAdapter(ModelSection)


def refuse_other_template(
    policy: Policy, template: PromptTemplate, *, allowed: bool, use: str
) -> None:
    """Refuse to use a model under another prompt than it was trained with, unless `allowed`.

    `use` is what is being done, as "this evaluation".
    """
    trained = policy.template
    if trained in (None, template.hash) or allowed:
        return
    unsaid = PromptSection().model_dump(mode="json")
    before = {**unsaid, **(policy.own_settings.get("prompt") or {})}
    now = template.section.model_dump(mode="json")
    keys = [f"prompt.{key}" for key in unsaid if before[key] != now[key]]
    raise ConfigurationError(
        f"{policy.label} was trained with prompt template {trained}, and {use} uses "
        f"{template.hash} ({', '.join(keys) or 'the tokenizer'} differs): results would "
        "differ for that alone",
        "drop the other prompt settings, or say --allow-template-mismatch",
    )


def refuse_unfit_start(
    policy: Policy,
    model: PretrainedModel | ScratchModel,
    prompt: PromptSection,
    *,
    other_template: bool,
) -> None:
    """Refuse to train from a policy of another model than `model`, or trained under another prompt.

    `other_template` allows the latter.
    """
    refuse_other_model(policy, model)
    template = PromptTemplate.from_section(prompt, policy.tokenizer_facts)
    refuse_other_template(policy, template, allowed=other_template, use="this training")


def refuse_other_model(policy: Policy, model: PretrainedModel | ScratchModel) -> None:
    """Refuse a model that isn't the configuration's, or one beside another's tokenizer.

    A run is compared by its configured model, a folder by its shape, an adapter by its base. Facts
    that are unknown without the network, as the shape of a model of the Hub, pass.
    """
    differing = differences(_facts(policy), facts_of_section(model))
    if differing:
        raise ConfigurationError(
            f"{policy.label} is another model than the configuration's: {', '.join(differing)}",
            f"take its own settings: --config {policy.run.folder / 'config.json'}, or its --preset"
            if policy.run
            else "describe it: --set model.kind=pretrained --set model.path=FOLDER, or a --preset",
        )
    entries = facts_of_folder(Path(policy.path)).get("vocab_size")
    if entries is not None and (known := len(policy.tokenizer())) > entries:
        raise ConfigurationError(
            f"the tokenizer of {policy.label} has {known} entries, and its model "
            f"{entries}: it is another model's",
            "put the model's own tokenizer beside it",
        )


def refuse_adapter_in_full_tuning(policy: Policy, tuning: str) -> None:
    """Refuse to tune every weight of what is an adapter on another model."""
    if tuning == "full" and is_adapter(Path(policy.path)):
        raise ConfigurationError(
            f"{policy.label} is a LoRA adapter, and model.tuning is 'full'",
            "use --set model.tuning=lora, or start from a model that was tuned in full",
        )


def _facts(policy: Policy) -> Facts:
    """The facts of a policy: from its run, its adapter's base's run, or its folder."""
    folder = Path(policy.path)
    run = policy.run or _run_of_base(folder)
    if run is None:
        return facts_of_folder(folder)
    section = run.config.get("model")
    return facts_of_section(_MODEL.validate_python(section)) if section else {}


def _run_of_base(folder: Path) -> Run | None:
    return run_of(Path(adapter_base(folder))) if is_adapter(folder) else None


def note_weights(run: Run) -> None:
    """Write down what the weights are that a training has just left."""
    run.note(weights=Policy.of_run(run).fingerprint)


def require_own_weights(policy: Policy) -> None:
    """Raise StoreError where a run's final model isn't what its training left."""
    if policy.run is None or policy.checkpoint is not None:
        return
    left = policy.run.manifest.get("weights")
    if left not in (None, policy.fingerprint):
        raise StoreError(
            f"{policy.run.model} has been changed: its training left weights {left}, and "
            f"{policy.fingerprint} are there now",
            f"restore them, or train {policy.run.id} again with --fresh; a changed model can be "
            "used from a folder of its own",
        )


def require_same_parent(run: Run, parent: Policy) -> None:
    """Raise StoreError where `run` began from other weights than `parent` has now."""
    began_from = run.manifest.get("parent_weights")
    if began_from not in (None, parent.fingerprint):
        raise StoreError(
            f"{run.id} began from weights {began_from} of {parent.label}, which has "
            f"{parent.fingerprint} now",
            f"restore {parent.label}, or begin again with --fresh",
        )


def require_childless(run: Run, runs: Runs) -> None:
    """Raise StoreError where other runs grew from `run`, whose weights a new training may change.

    They would be left without the weights that they began from.
    """
    if children := runs.children(run):
        raise StoreError(
            f"{', '.join(children)} grew from {run.id}: trained anew, it may end with other "
            "weights, and what isn't finished of them couldn't go on",
            "say --replace-parent to train it anew all the same, or remove them first",
        )
