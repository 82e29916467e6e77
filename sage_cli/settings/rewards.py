"""`rl.rewards`: what RL maximises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sage_cli.settings.own_code import OwnFunction, names_code, require_name
from sage_cli.settings.section import Section

GRADE, RANDOM, PLURALITY = "grade", "random", "plurality"
BUILT_IN_REWARDS = (GRADE, "format", "brevity", RANDOM, PLURALITY)
"""The grade; whether the answer stands where the prompt asks for it; how much of the length is
left; a coin; whether the answer is the group's most frequent."""
OVERLONG = "overlong"
_TAKEN = ("total", OVERLONG)
"""Names of other parts of the reward in a run's records."""


class Reward(Section):
    """A part of a completion's reward: `weight` times the value that `name` gives it."""

    name: str
    """Name of the reward: `grade`, `format`, `brevity`, `random`, `plurality`, or your own function
    (for example `mine.py:concise`)."""
    weight: float = 1.0
    """Factor of this part in the sum. With 0 it is recorded, but does not count."""
    p: float = Field(0.5, gt=0, lt=1)
    """Probability that the reward `random` is 1."""

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if names_code(name):
            OwnFunction.parse(name).require()
        else:
            require_name("reward", name, BUILT_IN_REWARDS)
        return name

    @model_validator(mode="after")
    def _no_idle_coin(self) -> Reward:
        if self.name != RANDOM and self.p != type(self).model_fields["p"].default:
            raise ValueError(f"p {self.p:g} only applies to the reward '{RANDOM}' (leave it out)")
        return self

    @property
    def label(self) -> str:
        """Its name in records: of a function of one's own the function's."""
        return _label(self.name)

    def determinants(self) -> dict[str, Any]:
        """Name, weight and p of a coin; code by the content of its file."""
        code = names_code(self.name)
        name = OwnFunction.parse(self.name).identity if code else self.name
        coin = {"p": self.p} if self.name == RANDOM else {}
        return {"name": name, "weight": self.weight, **coin}


def _listed(given: Any) -> Any:
    """Take a name for the reward of that name, and one for a list of one."""
    several = given if isinstance(given, list | tuple) else [given]
    return tuple({"name": item} if isinstance(item, str) else item for item in several)


Rewards = Annotated[tuple[Reward, ...], BeforeValidator(_listed)]
THE_GRADE = (Reward(name=GRADE),)


def _label(name: str) -> str:
    return OwnFunction.parse(name).name if names_code(name) else name


def part_names(rewards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the parts that are stored of a completion, of a stored `rl.rewards`."""
    labels = [_label(reward["name"]) for reward in rewards]
    return [*labels, *([] if GRADE in labels else [GRADE]), OVERLONG]


def are_usual(rewards: Sequence[Reward]) -> bool:
    """Return True if the grade is the only reward, the default."""
    return [(reward.name, reward.weight) for reward in rewards] == [(GRADE, 1.0)]


def pays_nothing(rewards: Any) -> bool:
    """Return True for a list of rewards, as read or as typed, that is empty or all of weight 0."""
    if not isinstance(rewards, list | tuple):
        return False
    weights = (
        reward.get("weight", 1) if isinstance(reward, Mapping) else getattr(reward, "weight", 1)
        for reward in rewards
    )
    return not any(weights)


def reward_problems(rewards: Sequence[Reward], *, taught: bool = False) -> list[str]:
    """Return what is wrong with a list of rewards, a sentence each.

    A policy that is `taught` by another model learns without a reward.
    """
    counts, problems = Counter(reward.label for reward in rewards), []
    for label, count in counts.items():
        if count > 1:
            problems.append(f"rl.rewards has two rewards called '{label}' (rename a function)")
    for reward in rewards:
        if reward.label in _TAKEN or (reward.label == GRADE and names_code(reward.name)):
            problems.append(
                f"rl.rewards: '{reward.label}' is the name of another part of the reward in a "
                f"run's records (rename the function {reward.name})"
            )
    if pays_nothing(rewards) and not taught:
        problems.append(
            "rl.rewards rewards nothing: it is empty, or every weight is 0 (only a policy that "
            "learns from a teacher, named by anchor.reference=MODEL, needs none)"
        )
    return problems


def rewards_in_words(rewards: Sequence[Reward]) -> str:
    """`grade + 0.2 x mine.py:brevity`, for plans."""
    parts = (
        f"{'' if reward.weight == 1 else f'{reward.weight:g} x '}{reward.name}"
        + (f" (p {reward.p:g})" if reward.name == RANDOM else "")
        for reward in rewards
    )
    return " + ".join(parts) or "none"
