"""Judges by name: the built-in ones, and those that other packages register."""

from __future__ import annotations

from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.function import FunctionJudge
from sage_cli.grading.judges.judge import Judge
from sage_cli.grading.judges.math_judges import PlainMathVerify, SearchingMathVerify, StrictMath
from sage_cli.grading.judges.roles import Roles
from sage_cli.grading.judges.verdicts import Verdicts
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import load_plugin
from sage_cli.settings.sections.judging import (
    BUILT_IN_JUDGES,
    EXTRACTIONS,
    IMPORTED_JUDGE,
    JUDGES_GROUP,
    MODES,
    Extraction,
    judge_names,
)

_NEXT_STEP = "register a subclass of sage_cli.grading.judges.Judge that defines quick and full"


def find_judge(name: str, mode: str, extract: Extraction = "tags") -> Judge:
    """The judge called `name`; under `math-verify`, mathematics is Math-Verify's alone.

    A name with a colon is a function of one's own, which is found here and run in workers alone.

    Raises ConfigurationError for an unknown name or mode, for a mode that doesn't search texts
    under `text`, and for a plug-in that is no judge.
    """
    if mode not in MODES:
        raise _unknown("grading mode", mode, MODES)
    if extract not in EXTRACTIONS:
        raise _unknown("way of extracting answers", extract, EXTRACTIONS)
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
        case _ if name == IMPORTED_JUDGE:
            return Verdicts()
    if names_code(name):
        return FunctionJudge(OwnFunction.of(name))
    if name in (known := judge_names()):
        return plugin_judge(name)
    raise _unknown("judge", name, known)


def plugin_judge(name: str) -> Judge:
    """The judge that a package registers as `name` in the entry-point group `sage_cli.judges`.

    Raises ConfigurationError when none or two do, or when the registered object can't be imported,
    can't be made without arguments or is no Judge.
    """
    plugin = load_plugin(JUDGES_GROUP, name)
    if missing := sorted(getattr(plugin.object, "__abstractmethods__", ())):
        raise plugin.refused(f"doesn't define {' and '.join(missing)}", _NEXT_STEP)
    with plugin.blamed("can't be made without arguments", _NEXT_STEP):
        judge = plugin.object()
    if not isinstance(judge, Judge):
        raise plugin.refused(f"makes a {type(judge).__name__} and not a Judge", _NEXT_STEP)
    return judge


def label_of(name: str) -> str:
    """The judge's name, that of a function of one's own without the folders of its file."""
    return OwnFunction.of(name).label if names_code(name) else name


def package_of(name: str) -> str | None:
    """The package and version of the plug-in judge `name`, as `chess-judges 0.3`; else None.

    Of a function of one's own its name with the content hash of its file.
    """
    if name in (*BUILT_IN_JUDGES, IMPORTED_JUDGE):
        return None
    if names_code(name):
        return OwnFunction.of(name).identity
    plugin = load_plugin(JUDGES_GROUP, name)
    return plugin.package or plugin.target


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(f"no {kind} is called '{name}'", "one of: " + ", ".join(known))
