"""The declarations of comparisons over initial policies: trades, interactions, a stopping rule."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sage_cli.settings.base import Section


def listed(value: Any) -> Any:
    """Return a single name as a tuple of one."""
    return (value,) if isinstance(value, str) else value


class Trade(Section):
    """`method` less the best of `against`, worked pass@k where both have the same pass@1."""

    name: str
    method: str
    against: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(min_length=1)
    """Methods; the best of their curves at that pass@1 is compared with."""
    k: int = Field(256, ge=1)
    guesses: bool = True
    """Count the ways that the generator calls guesses."""
    over: Literal["temperature", "steps"] = "temperature"
    """What makes a method a curve: the temperatures of its end, or its checkpoints."""
    primary: bool = False
    """It is one of the tests over which Holm's p is taken."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the methods that it names."""
        return (self.method, *self.against)


class Interaction(Section):
    """Is the gain of one change the same with every method?"""

    name: str
    gains: dict[str, tuple[str, str]] = Field(min_length=2)
    """Method -> the labels with the change and without it; the first method is compared with."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the methods of the suite that it names."""
        return tuple(dict.fromkeys(label for pair in self.gains.values() for label in pair))


class Stop(Section):
    """Look at the primary trade after `first` initial policies and after each `look_every` more.

    The study may stop when the always-valid interval excludes 0 or lies within ± `within`, and it
    stops at `most`.
    """

    first: int = Field(8, ge=3)
    look_every: int = Field(4, ge=1)
    most: int = Field(24, ge=3)
    within: float | None = Field(None, gt=0)
    """Differences that are too small to matter; null: only 0 is looked for."""
    alpha: float = Field(0.05, gt=0, lt=0.5)
    """The chance, at all looks together, that the interval excludes a true difference."""

    @property
    def looks(self) -> tuple[int, ...]:
        """Return the numbers of initial policies at which the trade is looked at."""
        return tuple(range(self.first, self.most + 1, self.look_every))

    @model_validator(mode="after")
    def _ends_at_a_look(self) -> Self:
        if self.most not in self.looks:
            raise ValueError(
                f"stop: no look at most = {self.most}: looks are at first = {self.first} and "
                f"every {self.look_every} further initial policies"
            )
        return self
