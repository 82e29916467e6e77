"""The functions that `rl.rewards` names, loaded and ready to be called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.methods.online import OnlineMethod
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import load_plugin
from sage_cli.settings.sections.rewards import BUILT_IN_REWARDS, GRADE, REWARDS_GROUP, Reward
from sage_cli.training.rewards.built_in import RewardFunction, built_in
from sage_cli.training.rewards.called import CalledReward, problem_columns


def called_reward(reward: Reward, spec: RlSpec, columns: Sequence[dict[str, Any]]) -> CalledReward:
    """Return one of the rewards besides the grade, ready to be called."""
    who, module = f"reward '{reward.label}'", "sage_cli.training.rewards.built_in"
    function: RewardFunction
    if names_code(reward.name):
        own = OwnFunction.of(reward.name)
        function, module, who = own.load(), own.module, f"{who} ({own})"
    elif reward.name in BUILT_IN_REWARDS:
        function = built_in(reward.name, spec.prompt, spec.rollout)
    else:
        plugin = load_plugin(REWARDS_GROUP, reward.name)
        if not callable(plugin.object):
            raise plugin.refused("is no function", "register reward(completions, **columns)")
        function, module, who = plugin.object, plugin.target.partition(":")[0], str(plugin)
    return CalledReward(who, module, function, columns, reward.timeout_s)


def require_rewards(spec: RlSpec, problems: Sequence[Problem]) -> None:
    """Load the functions of `rl.rewards`, before anything is trained.

    Raises ConfigurationError as `paid_rewards` does.
    """
    if isinstance(spec.rl, OnlineMethod):
        columns = problem_columns(problems)
        for one in spec.rl.rewards:
            if one.name != GRADE:
                called_reward(one, spec, columns)
