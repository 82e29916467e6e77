"""The frozen model that a policy is anchored to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import (
    adapter_base,
    is_adapter,
)
from sage_cli.models.policy import Policy, named_policy
from sage_cli.settings.inputs import PretrainedModel, kernel_arguments, trained_dtype
from sage_cli.store.run import Runs, run_of


def reference_policy(start: Policy, config: SageConfig) -> Policy:
    """Return the frozen model that `anchor.reference` means for a training from `start`.

    `initial` is `start` itself. `base` is the model below its adapter, or the one that its run
    began with; `start` again where there is neither, and under LoRA where it has no adapter yet.
    Raises ConfigurationError where nothing but random weights came before.
    """
    folder = Path(start.path)
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
    """The trainable policy, and the folder of a reference that isn't inside the policy itself."""
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
        return model, reference_policy(base, config).folder if held else None
    return (model if has_adapter else attach_lora(model, config.model.lora)), None
