"""Judges by name. A new kind of answer is a file beside this one and a line here."""

from __future__ import annotations

from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.judges.mathematics import Recipe, Strict
from sage_cli.grading.judges.roles import Roles

JUDGES: dict[str, Judge] = {"math": Strict(), "roles": Roles()}

MODES = ("strict", "math-verify")


def find_judge(name: str, mode: str) -> Judge:
    """The judge called `name`; under `math-verify`, mathematics is Math-Verify's alone.

    Raises ConfigurationError for a name or mode that doesn't exist.
    """
    if name not in JUDGES:
        raise ConfigurationError(f"no judge is called '{name}'", "one of: " + ", ".join(JUDGES))
    if mode not in MODES:
        raise ConfigurationError(
            f"no grading mode is called '{mode}'", "one of: " + ", ".join(MODES)
        )
    return Recipe() if (name, mode) == ("math", "math-verify") else JUDGES[name]
