"""What other packages bring into a training, made once beforehand."""

from __future__ import annotations

from sage_cli.config.advantages import BUILT_IN_ADVANTAGES
from sage_cli.config.guide import PluginGuideSection
from sage_cli.config.recipe import RlSpec


def require_plugins(recipe: RlSpec) -> None:
    """Name another package's guide or advantage that can't be made, before anything is trained."""
    if isinstance(recipe.guide, PluginGuideSection):
        from sage_cli.guides import build_guide

        build_guide(recipe.guide)
    if recipe.rl.advantage not in BUILT_IN_ADVANTAGES:
        from sage_cli.objectives import build_advantage

        build_advantage(recipe.rl.advantage, recipe.rl.advantage_options)
