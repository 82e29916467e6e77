"""What other packages bring into a training, made once beforehand."""

from __future__ import annotations

from sage_cli.config.advantages import BUILT_IN_ADVANTAGES
from sage_cli.config.recipe import RlRecipe


def require_plugins(recipe: RlRecipe) -> None:
    """Name another package's guide or advantage that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    if recipe.rl.advantage not in BUILT_IN_ADVANTAGES:
        from sage_cli.objectives import build_advantage

        build_advantage(recipe.rl.advantage, recipe.rl.advantage_options)
