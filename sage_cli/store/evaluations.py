"""What evaluations found of a run's final model, kept in its folder: one file per benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import read_object
from sage_cli.store.run import Run

FOLDER = "evaluations"
COUNTED = ("problems", "samples", "seeds")
"""The figures that say how many completions were counted: their product."""


def keep_evaluation(run: Run, benchmark: str, figures: Mapping[str, Any]) -> bool:
    """Put `figures` in the place of the benchmark's earlier ones; whether that changed anything.

    Figures over fewer completions than the earlier ones are not kept: a quick look doesn't replace
    a measurement. What is torn is replaced.
    """
    path = run.folder / FOLDER / f"{Path(benchmark).stem}.json"
    with suppress(FileNotFoundError, StoreError):
        kept = _read(path)
        if kept == figures or _counted(figures) < _counted(kept):
            return False
    write_json(path, figures)
    return True


def evaluation_figures(run: Run) -> dict[str, Any]:
    """`eval/<benchmark>/pass@1` and so on, of every benchmark that the run was measured on."""
    return {
        f"eval/{path.stem}/{name}": value
        for path in sorted((run.folder / FOLDER).glob("*.json"))
        for name, value in _read(path).items()
    }


def _read(path: Path) -> dict[str, Any]:
    """What a file says. Raises StoreError where it is no object of figures."""
    remedy = "remove it, and measure again"
    figures = read_object(path, remedy)
    try:
        _counted(figures)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} is torn or was edited: {error}", remedy) from None
    return figures


def _counted(figures: Mapping[str, Any]) -> int:
    """How many completions figures are over."""
    return prod(int(figures.get(name, 1)) for name in COUNTED)
