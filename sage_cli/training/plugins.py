"""Plug-ins that a training uses, made once before it starts."""

from __future__ import annotations

from sage_cli.config.specs import RlSpec
from sage_cli.methods.online import OnlineMethod
from sage_cli.methods.stored import StoredMethod
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import load_plugin
from sage_cli.settings.sections.rewards import BUILT_IN_REWARDS, REWARDS_GROUP


def require_plugins(recipe: RlSpec) -> None:
    """Name a guide, method or reward of others that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    if isinstance(recipe.rl, StoredMethod):
        load_plugin(recipe.rl.package, recipe.rl.algo)
    for reward in recipe.rl.rewards if isinstance(recipe.rl, OnlineMethod) else ():
        if names_code(reward.name):
            OwnFunction.of(reward.name).load()
        elif reward.name not in BUILT_IN_REWARDS:
            load_plugin(REWARDS_GROUP, reward.name)
