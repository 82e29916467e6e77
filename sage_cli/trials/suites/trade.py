"""The declaration of a trade: a method against others at equal pass@1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

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
