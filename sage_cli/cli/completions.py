"""The values that a shell completes: read from file names and settings, so that it is quick.

No library of models is imported: a completion that takes seconds is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

from sage_cli.errors import SageError


def _beginning(values: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Return the values that begin with what is typed; none where they can't be had."""
    with suppress(SageError, OSError):
        return [value for value in values() if value.startswith(incomplete)]
    return []


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return ids of runs below `--runs`, `$SAGE_RUNS` or `runs`; after a comma the next one."""
    from sage_cli.settings.sections.records import default_root

    root = Path(ctx.params.get("runs") or default_root())
    before, comma, last = incomplete.rpartition(",")
    ids = _beginning(lambda: sorted(p.parent.name for p in root.glob("[!.]*/manifest.json")), last)
    return [f"{before}{comma}{name}" for name in ids]


def presets(incomplete: str) -> list[str]:
    """Return names of presets."""
    from sage_cli.settings.presets import preset_names

    return _beginning(preset_names, incomplete)


def methods(incomplete: str) -> list[str]:
    """Return names of methods."""
    from sage_cli.methods.method import Method
    from sage_cli.settings.section import built_in

    return _beginning(lambda: built_in(Method), incomplete)


def guides(incomplete: str) -> list[str]:
    """Return names of guides."""
    from sage_cli.guides.guide import Guide
    from sage_cli.settings.section import built_in

    return _beginning(lambda: built_in(Guide), incomplete)


def suites(incomplete: str) -> list[str]:
    """Return names of suites."""
    from sage_cli.settings.presets import shipped

    folder = shipped("configs/suites")
    return _beginning(lambda: sorted(path.stem for path in folder.glob("*.yaml")), incomplete)


def benchmarks(incomplete: str) -> list[str]:
    """Return names of benchmarks; after a comma the next one."""
    from sage_cli.problems.registry import ENTRIES

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(lambda: ENTRIES, last)]


def settings(incomplete: str) -> list[str]:
    """Return settings as `section.key=`, of which the value is to be typed."""
    from sage_cli.config import catalogue

    return _beginning(lambda: [f"{name}=" for name in catalogue.settings()], incomplete)


def setting_names(incomplete: str) -> list[str]:
    """Return the dotted names of settings."""
    return [setting.removesuffix("=") for setting in settings(incomplete)]


def analyses(incomplete: str) -> list[str]:
    """Return names of analyses, each that of a file: their modules import plotting libraries."""
    folder = Path(__file__).parents[1] / "analysis/measures"

    def names() -> list[str]:
        files = sorted(folder.glob("[!_]*.py"))
        declaring = [file for file in files if "= Analysis(" in file.read_text(encoding="utf-8")]
        return [file.stem.replace("_", "-") for file in declaring]

    return _beginning(names, incomplete)


def forms(incomplete: str) -> list[str]:
    """Return the forms of files that `sage samples import` reads."""
    known = ("lm-eval", "lighteval", "inspect", "jsonl")
    return _beginning(lambda: known, incomplete)
