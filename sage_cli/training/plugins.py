"""Plug-ins that a training uses, made once before it starts."""

from __future__ import annotations

from sage_cli.config.recipe import RlSpec
from sage_cli.methods.registry import method_class


def require_plugins(recipe: RlSpec) -> None:
    """Name another package's guide or method that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    method_class(recipe.rl.algo)
