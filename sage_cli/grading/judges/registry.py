"""Judges by name: the built-in ones, and those that other packages register."""

from __future__ import annotations

from sage_cli.config.judging import BUILT_IN_JUDGES, JUDGES_GROUP, MODES, judge_names
from sage_cli.config.plugins import load_plugin
from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.judges.plain import PlainMathVerify
from sage_cli.grading.judges.plugins import plugin_judge
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
    if name in (known := judge_names()):
        return plugin_judge(name)
    raise ConfigurationError(f"no judge is called '{name}'", "one of: " + ", ".join(known))


def package_of(name: str) -> str | None:
    """The package and version whose judge is called `name`, as `chess-judges 0.3`.

    None for a built-in judge.
    """
    if name in BUILT_IN_JUDGES:
        return None
    plugin = load_plugin(JUDGES_GROUP, name)
    return plugin.package or plugin.target
