"""What other packages bring into a training, made once beforehand."""

from __future__ import annotations

from sage_cli.config.guide import PluginGuideSection
from sage_cli.config.plugins import load_plugin
from sage_cli.config.recipe import RlRecipe
from sage_cli.methods.registry import METHODS_GROUP, StoredMethod


def require_plugins(recipe: RlRecipe) -> None:
    """Name another package's guide or method that can't be made, before anything is trained."""
    if isinstance(recipe.guide, PluginGuideSection):
        from sage_cli.guides import build_guide

        build_guide(recipe.guide)
    if isinstance(recipe.rl, StoredMethod):
        load_plugin(METHODS_GROUP, recipe.rl.algo)
