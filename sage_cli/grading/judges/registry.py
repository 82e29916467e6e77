"""Judges by name: the built-in ones, and those that other packages register."""

from __future__ import annotations

from sage_cli.config.judging import (
    BUILT_IN_JUDGES,
    EXTRACTIONS,
    JUDGES_GROUP,
    MODES,
    Extraction,
    judge_names,
)
from sage_cli.config.plugins import load_plugin
from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.judges.plain import PlainMathVerify, SearchingMathVerify
from sage_cli.grading.judges.plugins import plugin_judge
from sage_cli.grading.judges.roles import Roles
from sage_cli.grading.judges.strict import StrictMath


def find_judge(name: str, mode: str, extract: Extraction = "tags") -> Judge:
    """The judge called `name`; under `math-verify`, mathematics is Math-Verify's alone.

    Raises ConfigurationError for a name or mode that doesn't exist, for a mode that doesn't search
    texts under `text`, and for a plug-in that is no judge.
    """
    if mode not in MODES:
        raise ConfigurationError(
            f"no grading mode is called '{mode}'", "one of: " + ", ".join(MODES)
        )
    if extract not in EXTRACTIONS:
        raise ConfigurationError(
            f"no way of extracting answers is called '{extract}'",
            "one of: " + ", ".join(EXTRACTIONS),
        )
    if name == "math" and extract == "text" and mode != "math-verify":
        raise ConfigurationError(
            f"the grading mode '{mode}' compares answers; it doesn't search a text for one",
            "grade 'text' in the mode math-verify, or extract tags-then-boxed",
        )
    match name:
        case "math" if mode == "math-verify":
            return SearchingMathVerify() if extract == "text" else PlainMathVerify()
        case "math":
            return StrictMath()
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
