"""The rewards that `rl.rewards` names, ready to be called, and the plug-ins of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.grading.extract import AnswerTags, extract
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import load_plugin
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.rewards import BUILT_IN_REWARDS, GRADE, REWARDS_GROUP, Reward
from sage_cli.settings.sections.rollout import RolloutSection
from sage_cli.training.rewards.called import CalledReward, RewardFunction, problem_columns


def built_in(name: str, prompt: PromptSection, rollout: RolloutSection) -> RewardFunction:
    """Return the reward `format` or `brevity` under these settings."""

    def formed(completions: Sequence[str], **_: Any) -> list[float]:
        return [float(has_form(text, prompt)) for text in completions]

    def brevity(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        return [length_left(len(ids), rollout.max_tokens) for ids in completion_ids]

    functions: dict[str, RewardFunction] = {"format": formed, "brevity": brevity}
    return functions[name]


def has_form(text: str, prompt: PromptSection) -> bool:
    r"""Return True if the answer stands where the prompt asks for it, once.

    Under `prompt.answer: tags` the opening and the closing tag stand there once each, in this
    order, with more than space between them and no more than space behind. Under `boxed` a closed
    \boxed{} has something in it.
    """
    tags = AnswerTags(prompt.answer_open, prompt.answer_close)
    answer = extract(text, tags, prompt.answer)
    if answer is None or not answer.strip():
        return False
    if prompt.answer != "tags":
        return True
    once = text.count(tags.open) == text.count(tags.close) == 1
    return once and not text.partition(tags.close)[2].strip()


def length_left(tokens: int, limit: int) -> float:
    """Return 1 - tokens / limit: 1 for nothing, 0 at `rollout.max_tokens`."""
    return 1 - tokens / limit


def called_reward(reward: Reward, spec: RlSpec, columns: Sequence[dict[str, Any]]) -> CalledReward:
    """Return one of the rewards besides the grade, ready to be called."""
    who, module = f"reward '{reward.label}'", "sage_cli.training.rewards.load"
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
    columns = problem_columns(problems)
    for one in spec.rl.paid:
        if one.name != GRADE:
            called_reward(one, spec, columns)


def require_plugins(recipe: RlSpec) -> None:
    """Name a guide, method or reward of others that can't be made, before anything is trained."""
    recipe.guide.for_training(recipe.rl.steps)
    recipe.rl.require_installed()
    for reward in recipe.rl.paid:
        if names_code(reward.name):
            OwnFunction.of(reward.name).load()
        elif reward.name not in BUILT_IN_REWARDS:
            load_plugin(REWARDS_GROUP, reward.name)
