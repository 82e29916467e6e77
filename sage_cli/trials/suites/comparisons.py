"""What a suite compares, as it is declared: claims, trades and interactions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from sage_cli.errors import ConfigurationError
from sage_cli.settings.base import Section

if TYPE_CHECKING:  # imports numpy, which a dry run does not need
    from sage_cli.metrics import About

ALPHA = 0.05
"""A claim is decided if Holm's p is at most this."""
_CLAIM = re.compile(
    r"(?P<a>\S+) (?P<sign>[<>]) (?P<b>\S+) at pass@(?P<k>\d+)(?: on (?P<benchmark>\S+))?"
)


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


class Verdict(StrEnum):
    """The verdict of measurements on a claim, about methods or about these models alone."""

    HOLDS = "holds"
    REVERSED = "reversed"
    OPEN = "indistinguishable"
    AS_CLAIMED = "these models: as claimed"
    OTHERWISE = "these models: the reverse"
    OPEN_MODELS = "these models: indistinguishable"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Claim:
    """`a > b at pass@k`, on average over benchmarks or on one of them."""

    a: str
    b: str
    k: int
    benchmark: str | None
    text: str

    def verdict(self, difference: float, p_holm: float, about: About) -> Verdict:
        """The verdict, from the measured a less b and its p-value after Holm (NaN: unknown).

        A claim is about methods: models of methods with too few seeds neither confirm nor reverse
        it.
        """
        methods = about == "methods"
        if math.isnan(difference) or math.isnan(p_holm):
            return Verdict.UNKNOWN
        if p_holm > ALPHA or difference == 0:
            return Verdict.OPEN if methods else Verdict.OPEN_MODELS
        if difference > 0:
            return Verdict.HOLDS if methods else Verdict.AS_CLAIMED
        return Verdict.REVERSED if methods else Verdict.OTHERWISE


def parse_claim(text: str) -> Claim:
    """Parse `grpo-branch > grpo at pass@256 [on aime]`; `<` swaps the two."""
    found = _CLAIM.fullmatch(" ".join(text.split()))
    if found is None:
        raise ConfigurationError(
            f"'{text}' is not a claim",
            "write it as METHOD > METHOD at pass@256, or ... on BENCHMARK",
        )
    a, b = found["a"], found["b"]
    if found["sign"] == "<":
        a, b = b, a
    return Claim(a, b, int(found["k"]), found["benchmark"], found[0])
