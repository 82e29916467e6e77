"""A sweep's configuration: what its trials share, what they differ in, and what names it."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.load import changed
from sage_cli.config.recipe import EvaluationRecipe, RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.store.identity import identity_of
from sage_cli.sweep.read import read_space
from sage_cli.sweep.space import Cell, Space


def trials(config: SageConfig) -> tuple[SageConfig, Space]:
    """The configuration that all trials share, and the search space in absolute values."""
    space = read_space(config.sweep.space, config)
    shared = {
        "evaluation.benchmark": config.sweep.benchmark,
        "evaluation.samples": config.sweep.samples,
        "evaluation.seeds": 1,  # a cell is judged by one sample set
        **({"rl.steps": config.sweep.steps} if config.sweep.steps else {}),
    }
    return changed(config, shared), space


def trial(config: SageConfig, cell: Cell, sweep: str) -> SageConfig:
    """The configuration of one cell; `sweep` is the group of its runs in W&B."""
    return changed(config, {**cell, "tracking.group": sweep})


def sweep_folder(config: SageConfig, space: Space) -> Path:
    """Where the sweep's memory is: told by its space and by what decides its trials' results."""
    recipes = (SftRecipe.of(config), RlRecipe.of(config), EvaluationRecipe.of(config))
    settings = {
        name: section.determinants() if hasattr(section, "determinants") else section
        for recipe in recipes
        for name, section in vars(recipe).items()
    }
    determinants = {**settings, "sweep": config.sweep.determinants(), "space": space.plain()}
    identity = identity_of("sweep", determinants)
    return config.run.root / "sweeps" / f"{'-'.join(space.keys)}-{identity[:8]}"
