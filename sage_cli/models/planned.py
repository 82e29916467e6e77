"""The run of a configuration, known from its settings and its parent before it is trained.

No weights are read, so that a plan can say exactly what is done and what is missing. What the
weights really were is noted when a run ends (`sage_cli.models.compatibility`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sage_cli.config.consent import consents
from sage_cli.config.readers import as_read
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import fingerprint, require_model, require_whole_weights
from sage_cli.models.policy import Policy
from sage_cli.models.reference import teacher_of
from sage_cli.models.shipped_base import shipped_run
from sage_cli.problems.identity import demonstrations_identity, training_identity
from sage_cli.problems.source_errors import reading
from sage_cli.settings.model import PretrainedModel, ScratchModel, kernel_arguments, trained_dtype
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run, Runs

_HELD_BY = {"reverse": "kl", "forward": "forward-kl", "none": "no-kl"}


def base_label(config: SageConfig) -> str:
    """Return the label of an initial policy: its model, or its task for one from scratch."""
    if isinstance(config.model, ScratchModel):
        return Path(config.data.sft.name.partition(":")[0]).stem.lower()
    return Path(config.model.path).name.lower()


def rl_label(config: SageConfig) -> str:
    """Return algorithm and anchor of a run: a guide's name, `kl`, `distilled` and so on."""
    guide, held = config.guide.name, "distilled" if config.distils else _HELD_BY[config.anchor.kl]
    return f"{config.rl.algo}-{guide if guide != 'none' else held}"


def planned_base(config: SageConfig, runs: Runs) -> Policy:
    """Return the base of a configuration: a run's model, trained or not yet, or the model as it is.

    The run is the base that comes with `sage` where that one was trained under these settings.
    Raises ConfigurationError where a model from scratch is not to be trained.
    """
    if config.sft.enabled:
        trained = sft_run(config, runs)
        shipped = shipped_run(trained) if config.sft.shipped else None
        return Policy.of_run(shipped or trained, consent=consents(config.model))
    if isinstance(config.model, PretrainedModel):
        return Policy(config.model.path, section=config.model)
    raise ConfigurationError(
        "model.kind is 'scratch' and sft.enabled is false, so that RL would start "
        "from random weights",
        "use --set sft.enabled=true, or --init RUN",
    )


def sft_run(config: SageConfig, runs: Runs) -> Run:
    """Return the run of a base, identified by model, prompt, SFT settings and demonstrations."""
    with reading(config, "data.sft"):
        demonstrations = demonstrations_identity(config.data, config.sft)

    def determinants(section: Callable[[str], Any]) -> dict[str, Any]:
        return {
            "model": _start(section("model")),
            "prompt": section("prompt").determinants(),
            "sft": section("sft").determinants(),
            "data": demonstrations,
        }

    return _run_of(config, runs, ("sft", base_label(config)), determinants)


def rl_run(
    config: SageConfig,
    parent: Policy,
    runs: Runs,
    processes: int,
    pool: Mapping[str, Any] | None = None,
) -> Run:
    """Return the run of a policy that is trained by RL from `parent` in so many processes.

    `pool` is what decides which problems were chosen by pass rates, if any were.
    """
    model, anchor, guide = config.model, config.anchor, config.guide
    with reading(config, "data.rl"):
        problems = training_identity(config.data)
    lora = model.lora.determinants() if model.tuning == "lora" else None
    teacher = teacher_of(config)
    # by its weights, wherever they lie
    taught = {"reference": teacher.fingerprint} if teacher is not None else {}
    kernels = kernel_arguments(model)

    def determinants(section: Callable[[str], Any]) -> dict[str, Any]:
        return {
            "parent": parent.identity,
            "tuning": [model.tuning, trained_dtype(model), lora],
            "compute": model.compute_dtype,
            "prompt": section("prompt").determinants(),
            # each process samples rollouts of its own
            "rl": {**section("rl").determinants(), "processes": processes},
            "rollout": section("rollout").determinants(),
            "anchor": section("anchor").determinants() | taught if anchor.kl != "none" else None,
            "guide": section("guide").determinants() if guide.name != "none" else None,
            "grading": section("grading").determinants(),
            **({"kernels": kernels} if kernels else {}),
            "data": problems | ({"pool": dict(pool)} if pool else {}),
        }

    return _run_of(config, runs, ("rl", rl_label(config)), determinants)


def _run_of(
    config: SageConfig,
    runs: Runs,
    named: tuple[str, str],
    determinants: Callable[[Callable[[str], Any]], dict[str, Any]],
) -> Run:
    """Return the run of kind and label `named` that `determinants` of the sections identify.

    In the hash, a setting that nothing reads has its default. Earlier releases hashed it as it was
    given; where a folder has a run under that hash, and none under today's, it is the same
    training, and is meant.
    """
    kind, label = named
    today = determinants(partial(as_read, config))
    formerly = determinants(partial(getattr, config))
    run = runs.at(kind, label, identity_of(kind, today))
    if formerly == today or run.has_begun():
        return run
    former = runs.at(kind, label, identity_of(kind, formerly))
    return former if former.has_begun() else run


def _start(model: PretrainedModel | ScratchModel) -> dict[str, Any]:
    settings = {**model.determinants(), "dtype": trained_dtype(model)}
    if isinstance(model, ScratchModel):
        # random weights are always trained in full: the tuning is RL's
        return {key: v for key, v in settings.items() if key not in ("tuning", "lora")}
    require_model(model.path)
    require_whole_weights(model.path)
    weights = fingerprint(model.path, model.revision)
    return {**settings, "path": None, "weights": weights}
