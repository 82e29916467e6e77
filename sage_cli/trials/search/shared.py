"""The configuration that all trials of a sweep share, and the sweep's name; a plan reads both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.store.files import identity_of

VALIDATIONS = 6
"""How often a run is validated if trials that lag behind are ended."""


def shared_config(config: SageConfig) -> SageConfig:
    """The configuration that all trials share: each is measured once on the validation problems."""
    sweep = config.sweep
    shared: dict[str, Any] = {
        "evaluation.benchmark": sweep.benchmark,
        "evaluation.validation": sweep.benchmark,
        "evaluation.samples": sweep.samples,
        "evaluation.k": f"1..{sweep.samples}:pow2",
        "evaluation.seeds": 1,  # a trial is judged by one sample set
    }
    if sweep.steps:
        shared["rl.steps"] = sweep.steps
    if sweep.prune != "none":
        steps = sweep.steps or config.rl.steps
        shared["evaluation.every"] = config.evaluation.every or max(1, steps // VALIDATIONS)
        shared["evaluation.validation_samples"] = max(
            config.evaluation.validation_samples,
            *(objective.samples_needed for objective in sweep.objectives),
        )
    return changed(config, shared)


def sweep_settings(shared: SageConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """The settings that decide the trials' results, by dotted name.

    `keys` maps the parameters' short names to settings. Values, objectives, seeds and samplers are
    not part of it, so they can change without losing a trial.
    """
    sections = {
        name: section.determinants() if hasattr(section, "determinants") else section
        for name, section in vars(shared).items()
    }
    searched = dict.fromkeys(keys.values(), "searched")
    return {**dict(leaves(sections)), **searched}


def sweep_name(shared: SageConfig, keys: Mapping[str, str]) -> str:
    """The sweep's name: its parameters, and eight digits of what decides its results."""
    identity = identity_of("sweep", sweep_settings(shared, keys))
    return shared.sweep.study or f"{'-'.join(keys)}-{identity[:8]}"


def sweep_folder(root: Path, name: str) -> Path:
    """The folder of a sweep, below the folder of runs."""
    return root / "sweeps" / name


def point_config(shared: SageConfig, point: Mapping[str, Any], seed: int = 0) -> SageConfig:
    """The configuration of a point's `seed`-th replicate."""
    config = changed(shared, point)
    return changed(config, {"rl.seed": config.rl.seed + seed}) if seed else config
