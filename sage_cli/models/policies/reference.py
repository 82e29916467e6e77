"""The reference of a training: the frozen model that its policy is anchored to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import adapter_base, is_adapter
from sage_cli.models.policies.names import named_policy
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.sections.model import PretrainedModel, kernel_arguments, trained_dtype
from sage_cli.store.runs.run import Runs, run_of


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
