"""Policies by name: a run, a checkpoint of one, a folder, a model of the Hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sage_cli.config.consent import consents
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.folders import is_model_folder
from sage_cli.models.hub import is_hub_name
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel
from sage_cli.store.runs.run import SEAL, Run, Runs, run_of

Model = PretrainedModel | ScratchModel | None
"""The configured model: its `revision` holds for what no run made, its `trust_remote_code` for all.
"""
Labels = Mapping[str, str]
"""Name that was typed -> what tables and figures are to call the model."""
NO_LABELS: Labels = {}


def distinct_policies(
    names: Sequence[str], runs: Runs, model: Model = None, labels: Labels = NO_LABELS
) -> list[Policy]:
    """The policies of all `names`, each once; ConfigurationError where two have one label."""
    named = [
        replace(policy, called=labels.get(name))
        for name in names
        for policy in named_policies(name, runs, model)
    ]
    policies = list({policy.path: policy for policy in named}.values())
    refuse_equal_labels(policies)
    return policies


def refuse_equal_labels(policies: Sequence[Policy]) -> None:
    """Raise ConfigurationError where tables and figures would call two of `policies` the same."""
    labels = Counter(policy.label for policy in policies)
    alike = [policy.path for policy in policies if labels[policy.label] > 1]
    if alike:
        raise ConfigurationError(
            f"these models would have the same name in tables and figures: {', '.join(alike)}",
            "rename a folder, or call one something else where the command takes RUN=Label",
        )


def split_label(typed: str) -> tuple[str, str | None]:
    """`RUN=Label` -> the name and what tables and figures are to call it.

    Raises ConfigurationError for an empty label, and for one of several checkpoints.
    """
    name, equals, label = typed.rpartition("=")
    if not equals or Path(typed).exists():
        return typed, None
    if not name or not label.strip():
        raise ConfigurationError(
            f"'{typed}' doesn't say what to call which model", "write RUN=Label, as rl-dapo=DAPO"
        )
    if name.endswith("@all"):
        raise ConfigurationError(
            f"'{typed}' gives several checkpoints one label", "label one of them, as RUN@40=Label"
        )
    return name, label.strip()


class NoRunsError(StoreError):
    """Nothing was named, and there is no finished run that could be meant."""


def chosen_policies(
    names: Sequence[str], runs: Runs, model: Model = None, labels: Labels = NO_LABELS
) -> list[Policy]:
    """The policies of `names`; without names that of the latest finished run.

    Raises NoRunsError where there is none.
    """
    if names:
        return distinct_policies(names, runs, model, labels)
    latest = runs.latest()
    if latest is None:
        raise NoRunsError(
            f"{runs.root.resolve()} holds no finished run to measure",
            "name a run or a model folder, name the folder of runs with --runs, or say --train to "
            "train the preset's base first",
        )
    return [Policy.of_run(latest, consent=consents(model))]


def named_policies(name: str, runs: Runs, model: Model = None) -> list[Policy]:
    """The policy called `name`, or all checkpoints and the end of a run for `RUN@all`."""
    run_name, at, step = name.partition("@")
    if not (at and step == "all"):
        return [named_policy(name, runs, model)]
    run = runs.find(run_name)
    run.require_whole()
    consent = consents(model)
    checkpoints = [_checkpoint(run, str(step), consent) for step in checkpoint_steps(run)]
    return checkpoints + ([Policy.of_run(run, consent=consent)] if run.finished else [])


def named_run(name: str, runs: Runs) -> Run | None:
    """The run that `name` or `name@step` means; None for a model that no run here made.

    Raises StoreError where it is neither, and TornError where the run can't be read.
    """
    if Path(name).is_dir() and run_of(Path(name)) is None:
        if is_model_folder(Path(name)):
            return None
        raise StoreError(
            f"the folder {name} holds neither a run nor a model",
            "name a run, or a Hugging Face folder with config.json and *.safetensors",
        )
    if is_hub_name(name):
        return None
    run = runs.find(name.partition("@")[0])
    run.require_whole()
    return run


def named_policy(name: str, runs: Runs, model: Model = None) -> Policy:
    """A run's final model, `RUN@step`'s checkpoint, any model folder, or a model of the Hub."""
    run = named_run(name, runs)
    if run is None:
        configured = model if isinstance(model, PretrainedModel) else PretrainedModel()
        revision = configured.revision if configured.path == name else None
        section = configured.model_copy(update={"path": name, "revision": revision})
        return Policy(name, section=section)
    _, at, step = name.partition("@")
    if at:
        return _checkpoint(run, step, consents(model))
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished",
            "type its command again to continue it, or name a checkpoint as RUN@step",
        )
    return Policy.of_run(run, consent=consents(model))


def checkpoint_steps(run: Run) -> list[int]:
    """The steps at which `run` has checkpoints, ascending; what is being written is none yet."""
    seals = run.checkpoints.glob(f"checkpoint-*/{SEAL}")
    return sorted(int(seal.parent.name.split("-")[1]) for seal in seals)


def _checkpoint(run: Run, step: str, consent: bool) -> Policy:
    steps = checkpoint_steps(run)
    if not step.isdigit() or int(step) not in steps:
        known = ", ".join(map(str, steps)) or "none"
        raise StoreError(f"{run.id} has no checkpoint at step '{step}'; it keeps {known}")
    folder = run.checkpoints / f"checkpoint-{step}"
    return Policy(str(folder), run, checkpoint=int(step), consent=consent)
