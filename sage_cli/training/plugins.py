"""Plug-ins that a training uses, made once before it starts."""

from __future__ import annotations

from sage_cli.config.advantages import BUILT_IN_ADVANTAGES
from sage_cli.config.guide import PluginGuideSection
from sage_cli.config.recipe import RlRecipe


def require_plugins(recipe: RlRecipe) -> None:
    """Name another package's guide or advantage that can't be made, before anything is trained."""
    if isinstance(recipe.guide, PluginGuideSection):
        from sage_cli.guides import build_guide

        build_guide(recipe.guide)
    if recipe.rl.advantage not in BUILT_IN_ADVANTAGES:
        from sage_cli.objectives import build_advantage

        build_advantage(recipe.rl.advantage, recipe.rl.advantage_options)
