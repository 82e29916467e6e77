"""Evaluations of a run's final model, recorded in its folder: one file per benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import TornError, name_once, read_object
from sage_cli.store.runs.run import Run

FOLDER = "evaluations"
COUNTED = ("problems", "samples", "seeds")
"""The figures whose product is the number of completions."""


def record_evaluation(
    run: Run, benchmark: str, figures: Mapping[str, Any], content: str | None = None
) -> bool:
    """Replace the benchmark's figures; return True if they changed.

    `content` distinguishes benchmarks of one name. Figures over fewer completions than the recorded
    ones are ignored: a quick evaluation does not replace a longer one. Torn files are replaced.
    """
    path = _file(run, benchmark, content)
    figures = {**figures, **({"benchmark": benchmark, "content": content} if content else {})}
    with suppress(FileNotFoundError, TornError):
        earlier = _read(path)
        if earlier == figures or _counted(figures) < _counted(earlier):
            return False
    write_json(path, figures)
    return True


def evaluation_figures(run: Run) -> dict[str, Any]:
    """Return `eval/<benchmark>/pass@1` and so on, of all benchmarks that the run was measured on.

    A torn file is left out with one warning.
    """
    figures: dict[str, Any] = {}
    for path in sorted((run.folder / FOLDER).glob("*.json")):
        try:
            figures |= {f"eval/{path.stem}/{name}": value for name, value in _read(path).items()}
        except TornError as error:
            name_once(error)
    return figures


def name_in(figures: Mapping[str, Any], benchmark: str) -> str:
    """Return the name in `evaluation_figures` of the benchmark that a command calls `benchmark`."""
    keys = (key for key, value in figures.items() if value == benchmark)
    names = (key.split("/")[1] for key in keys if key.endswith("/benchmark"))
    return next(names, Path(benchmark).stem)


def _file(run: Run, benchmark: str, content: str | None) -> Path:
    """Return the benchmark's file, named by its content too if its name is another's."""
    path = run.folder / FOLDER / f"{Path(benchmark).stem}.json"
    with suppress(FileNotFoundError, TornError):
        if content and _read(path).get("content") != content:
            return path.with_name(f"{path.stem}-{content[:8]}.json")
    return path


def _read(path: Path) -> dict[str, Any]:
    remedy = "remove it, and evaluate again"
    figures = read_object(path, remedy)
    try:
        _counted(figures)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise TornError(f"{path} is torn or was edited: {error}", remedy) from None
    return figures


def _counted(figures: Mapping[str, Any]) -> int:
    return prod(int(figures.get(name, 1)) for name in COUNTED)
