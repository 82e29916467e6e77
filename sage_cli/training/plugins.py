"""Plug-ins that a training uses, made once before it starts."""

from __future__ import annotations

from sage_cli.config.plugins import load_plugin
from sage_cli.config.recipe import RlSpec
from sage_cli.methods.registry import METHODS_GROUP, StoredMethod


def require_plugins(recipe: RlSpec) -> None:
    """Name another package's guide or method that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    if isinstance(recipe.rl, StoredMethod):
        load_plugin(METHODS_GROUP, recipe.rl.algo)
