"""Plug-ins that a training uses, made once before it starts."""

from __future__ import annotations

from sage_cli.config.specs import RlSpec
from sage_cli.methods.stored import StoredMethod
from sage_cli.settings.plugins import load_plugin


def require_plugins(recipe: RlSpec) -> None:
    """Name another package's guide or method that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    if isinstance(recipe.rl, StoredMethod):
        load_plugin(recipe.rl.package, recipe.rl.algo)
