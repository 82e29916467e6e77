"""The claims of a suite, and the verdicts on them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError

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
