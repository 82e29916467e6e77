"""What evaluations found of a run's final model, kept in its folder: one file per benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.run import Run

FOLDER = "evaluations"


def keep_evaluation(run: Run, benchmark: str, figures: Mapping[str, Any]) -> bool:
    """Put `figures` in the place of the benchmark's earlier ones; False where they are the same."""
    path = run.folder / FOLDER / f"{Path(benchmark).stem}.json"
    if path.is_file() and _read(path) == figures:
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
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise StoreError(
            f"{path} is torn or was edited: {error}", "remove it, and measure again"
        ) from None
    return figures
