"""Which starts and evaluations don't fit together, refused before anything is written."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from sage_cli.config.model import ModelSection, PretrainedModel, PromptSection, ScratchModel
from sage_cli.errors import ConfigurationError
from sage_cli.models.architecture import Facts, differences, facts_of_folder, facts_of_section
from sage_cli.models.folders import adapter_base, is_adapter
from sage_cli.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.runs.run import Run, run_of

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

    A run is told by what it says it trains, a folder by its shape, an adapter by its base. What
    can't be told without the network, such as the shape of a model of the Hub, passes.
    """
    found = differences(_facts(policy), facts_of_section(model))
    if found:
        raise ConfigurationError(
            f"{policy.label} is another model than the configuration's: {', '.join(found)}",
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
    """What a policy is: as its run says, or that its adapter grew from, or as its folder looks."""
    folder = Path(policy.path)
    run = policy.run or _run_of_base(folder)
    if run is None:
        return facts_of_folder(folder)
    section = run.config.get("model")
    return facts_of_section(_MODEL.validate_python(section)) if section else {}


def _run_of_base(folder: Path) -> Run | None:
    return run_of(Path(adapter_base(folder))) if is_adapter(folder) else None
