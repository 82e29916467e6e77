"""What evaluations found of a run's final model, kept in its folder: one file per benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import TornError, name_once, read_object
from sage_cli.store.run import Run

FOLDER = "evaluations"
COUNTED = ("problems", "samples", "seeds")
"""The figures that say how many completions were counted: their product."""


def keep_evaluation(
    run: Run, benchmark: str, figures: Mapping[str, Any], content: str | None = None
) -> bool:
    """Put `figures` in the place of the benchmark's earlier ones; whether that changed anything.

    `content` tells benchmarks of one name apart. Figures over fewer completions than the earlier
    ones are not kept: a quick look doesn't replace a measurement. What is torn is replaced.
    """
    path = _place(run, benchmark, content)
    figures = {**figures, **({"benchmark": benchmark, "content": content} if content else {})}
    with suppress(FileNotFoundError, TornError):
        kept = _read(path)
        if kept == figures or _counted(figures) < _counted(kept):
            return False
    write_json(path, figures)
    return True


def evaluation_figures(run: Run) -> dict[str, Any]:
    """`eval/<benchmark>/pass@1` and so on, of every benchmark that the run was measured on.

    A file that is torn is left out, and named once.
    """
    found: dict[str, Any] = {}
    for path in sorted((run.folder / FOLDER).glob("*.json")):
        try:
            found |= {f"eval/{path.stem}/{name}": value for name, value in _read(path).items()}
        except TornError as error:
            name_once(error)
    return found


def name_in(figures: Mapping[str, Any], benchmark: str) -> str:
    """What `evaluation_figures` call the benchmark that a command named so."""
    named = (key for key, value in figures.items() if value == benchmark)
    found = (key.split("/")[1] for key in named if key.endswith("/benchmark"))
    return next(found, Path(benchmark).stem)


def _place(run: Run, benchmark: str, content: str | None) -> Path:
    """The benchmark's file: its own name's, or where another's has that, one with the content's.

    A record of an earlier release doesn't say what its content was, and is taken for the same.
    """
    path = run.folder / FOLDER / f"{Path(benchmark).stem}.json"
    with suppress(FileNotFoundError, TornError):
        if content and _read(path).get("content", content) != content:
            return path.with_name(f"{path.stem}-{content[:8]}.json")
    return path


def _read(path: Path) -> dict[str, Any]:
    """What a file says. Raises TornError where it is no object of figures."""
    remedy = "remove it, and measure again"
    figures = read_object(path, remedy)
    try:
        _counted(figures)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise TornError(f"{path} is torn or was edited: {error}", remedy) from None
    return figures


def _counted(figures: Mapping[str, Any]) -> int:
    """How many completions figures are over."""
    return prod(int(figures.get(name, 1)) for name in COUNTED)
