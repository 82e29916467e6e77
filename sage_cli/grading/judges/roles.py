"""The judge of answers that assign a role to every name, as in Knights and Knaves."""

from __future__ import annotations

import re
from functools import lru_cache

from sage_cli.grading.grades import Status
from sage_cli.grading.judges.judge import Judge

_GOLD = re.compile(r"(?<![\w'-])['-]*(\w[\w'-]*) is an? (\w+)")
_DECORATION = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|boxed)\b|[*{}$`]")


class Roles(Judge):
    """Right if every name has its role; wrong if one is missing, different or contradicted."""

    def quick(self, gold: str, answer: str, tolerance: float | None) -> Status | None:  # noqa: ARG002
        """Return the status, always."""
        roles = read_gold(gold)
        if not roles:
            return "error"
        assigned = _assignments(answer, tuple(roles))
        if not assigned:
            return "unparseable"
        return "right" if assigned == set(roles.items()) else "wrong"

    def full(self, gold: str, answer: str, tolerance: float | None, deadline: float) -> Status:  # noqa: ARG002
        """Return the same status."""
        return self.quick(gold, answer, tolerance) or "error"


@lru_cache(maxsize=4096)
def read_gold(gold: str) -> dict[str, str]:
    """Role by name, both in lower case: `Ann is a knight, and Bob is a knave.`"""
    return {name.lower(): role.lower() for name, role in _GOLD.findall(gold)}


def _assignments(answer: str, names: tuple[str, ...]) -> set[tuple[str, str]]:
    """Every (name, role) that the answer states; a name with two roles appears twice."""
    text = _DECORATION.sub("", answer.lower())
    return {
        (name, role.removesuffix("s") if plural else role)
        for match in _statements(names).finditer(text)
        for name in re.findall(r"\w[\w'-]*", match["names"])
        if name in names
        for role, plural in [(match["role"], match["verb"] == "are")]
    }


@lru_cache(maxsize=1024)
def _statements(names: tuple[str, ...]) -> re.Pattern[str]:
    name = "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"
    return re.compile(
        rf"(?<![\w'-])(?P<names>{name}(?:(?:, and |, | and | & ){name})*)"
        r"\s*(?P<verb>\bis\b|\bare\b|=|:|->|→|-)\s*(?:both |all )?(?:an? |the )?(?P<role>[a-z]+)"
    )
