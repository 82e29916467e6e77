"""`rl.rewards`: what a completion is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from sage_cli.settings.base import COSMETIC, Section
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import load_plugin, require_name

GRADE = "grade"
BUILT_IN_REWARDS = (GRADE, "format", "brevity")
"""The grade; whether the answer stands where the prompt asks for it; how much of the length is
left."""
REWARDS_GROUP = "sage_cli.rewards"
"""The entry-point group under which other packages register functions."""
_TAKEN = ("total", "overlong")
"""Names of other parts of the reward in a run's records."""


class Reward(Section):
    """A part of what a completion is paid: `weight` times what `name` says of it."""

    name: str
    """`grade`, `format`, `brevity`, what a package registers, or a function of one's own."""
    weight: float = 1.0
    """Its factor in the sum. 0: recorded and not paid."""
    timeout_s: float = Field(60.0, gt=0, le=86_400, json_schema_extra=COSMETIC)
    """Seconds that a call for the completions of a batch may take, a day at most."""

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        if names_code(name):
            OwnFunction.of(name).require()
        else:
            require_name(REWARDS_GROUP, name, BUILT_IN_REWARDS, info)
        return name

    @property
    def label(self) -> str:
        """Its name in records: of a function of one's own the function's."""
        return OwnFunction.of(self.name).name if names_code(self.name) else self.name

    def determinants(self) -> dict[str, Any]:
        """Name and weight; code by the content of its file, a package's by its version."""
        return {"name": self._identity, "weight": self.weight}

    @property
    def _identity(self) -> str:
        if names_code(self.name):
            return OwnFunction.of(self.name).identity
        if self.name in BUILT_IN_REWARDS:
            return self.name
        plugin = load_plugin(REWARDS_GROUP, self.name)
        return f"{self.name}, {plugin.package or plugin.target}"


def _listed(given: Any) -> Any:
    """Take a name for the reward of that name, and one for a list of one."""
    several = given if isinstance(given, list | tuple) else [given]
    return tuple({"name": one} if isinstance(one, str) else one for one in several)


Rewards = Annotated[tuple[Reward, ...], BeforeValidator(_listed)]
THE_GRADE = (Reward(name=GRADE),)


def are_usual(rewards: Sequence[Reward]) -> bool:
    """Return True if completions are paid their grades alone, as by default."""
    return [(one.name, one.weight) for one in rewards] == [(GRADE, 1.0)]


def reward_problems(rewards: Sequence[Reward]) -> list[str]:
    """Return what is wrong with a list of rewards, a sentence each."""
    counts, found = Counter(one.label for one in rewards), []
    for label, count in counts.items():
        if count > 1:
            found.append(f"rl.rewards has two rewards called '{label}' (rename a function)")
    for one in rewards:
        if one.label in _TAKEN or (one.label == GRADE and names_code(one.name)):
            found.append(
                f"rl.rewards: '{one.label}' is the name of another part of the reward in a run's "
                f"records (rename the function {one.name})"
            )
    if not any(one.weight for one in rewards):
        found.append("rl.rewards pays nothing: it is empty, or every weight is 0")
    return found


def in_words(rewards: Sequence[Reward]) -> str:
    """`grade + 0.2 x mine.py:brevity`, for plans."""
    parts = (f"{'' if one.weight == 1 else f'{one.weight:g} x '}{one.name}" for one in rewards)
    return " + ".join(parts)
