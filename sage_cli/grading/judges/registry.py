"""Judges by name: the built-in ones, and those that other packages register."""

from __future__ import annotations

from sage_cli.config.judging import BUILT_IN_JUDGES, MODES, judge_names
from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.judges.plain import PlainMathVerify
from sage_cli.grading.judges.plugins import load_plugin
from sage_cli.grading.judges.roles import Roles
from sage_cli.grading.judges.strict import StrictMath


def find_judge(name: str, mode: str) -> Judge:
    """The judge called `name`; under `math-verify`, mathematics is Math-Verify's alone.

    Raises ConfigurationError for a name or mode that doesn't exist and for a plug-in that is no
    judge.
    """
    if mode not in MODES:
        raise ConfigurationError(
            f"no grading mode is called '{mode}'", "one of: " + ", ".join(MODES)
        )
    match name:
        case "math":
            return PlainMathVerify() if mode == "math-verify" else StrictMath()
        case "roles":
            return Roles()
    if plugin := load_plugin(name):
        return plugin.judge
    raise ConfigurationError(f"no judge is called '{name}'", "one of: " + ", ".join(judge_names()))


def package_of(name: str) -> str | None:
    """The package and version whose judge is called `name`, as `chess-judges 0.3`.

    None for a built-in judge.
    """
    plugin = None if name in BUILT_IN_JUDGES else load_plugin(name)
    return plugin.package if plugin else None
