"""What was measured of a run's final model, kept in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from sage_cli.store.file_names import portable
from sage_cli.store.json_files import (
    CorruptFileError,
    read_object,
    warn_of_corrupt_file,
    write_object,
)
from sage_cli.store.run import Run

EVALUATIONS = "evaluations"
COUNTED = ("problems", "samples", "seeds")
"""The figures whose product is the number of completions."""


def record_evaluation(
    run: Run, benchmark: str, figures: Mapping[str, Any], content: str | None = None
) -> bool:
    """Replace the benchmark's figures; return True if they changed.

    `content` distinguishes benchmarks of one name. Figures over fewer completions than the recorded
    ones are ignored: a quick evaluation does not replace a longer one. Corrupt files are replaced.
    """
    path = _file(run, benchmark, content)
    figures = {**figures, **({"benchmark": benchmark, "content": content} if content else {})}
    with suppress(FileNotFoundError, CorruptFileError):
        earlier = _read(path)
        if earlier == figures:
            path.touch()  # the newest of this benchmark
            return False
        if _counted(figures) < _counted(earlier):
            return False
    write_object(path, figures)
    return True


def evaluations(run: Run) -> dict[str, dict[str, Any]]:
    """Return the figures of each benchmark that the run was measured on, the newest last.

    Keys are the files' names, of two that earlier versions wrote otherwise the newest's. A corrupt
    file is left out with one warning.
    """
    figures: dict[str, dict[str, Any]] = {}
    paths: list[Path] = []
    with suppress(FileNotFoundError):
        paths = sorted(
            (run.folder / EVALUATIONS).iterdir(), key=lambda path: path.stat().st_mtime_ns
        )
    for path in paths:
        if path.suffix == ".json":
            try:
                read = _read(path)
                figures.pop(portable(path.stem), None)
                figures[portable(path.stem)] = read
            except CorruptFileError as error:
                warn_of_corrupt_file(error)
    return figures


def evaluation_figures(run: Run) -> dict[str, Any]:
    """Return `eval/<benchmark>/pass@1` and so on, of all `evaluations`."""
    return {
        f"eval/{benchmark}/{name}": value
        for benchmark, figures in evaluations(run).items()
        for name, value in figures.items()
    }


def name_in(figures: Mapping[str, Any], benchmark: str) -> str:
    """Return the name in `evaluation_figures` of the benchmark that a command calls `benchmark`."""
    names = {
        str(value): key.split("/")[1]
        for key, value in figures.items()
        if key.endswith("/benchmark")
    }
    return names.get(benchmark) or portable(Path(benchmark).name)


def _file(run: Run, benchmark: str, content: str | None) -> Path:
    """Return the benchmark's file, named by its content too if its name is another's."""
    path = run.folder / EVALUATIONS / f"{portable(Path(benchmark).name)}.json"
    with suppress(FileNotFoundError, CorruptFileError):
        if content and _read(path).get("content") != content:
            return path.with_name(f"{path.stem}-{content[:8]}.json")
    return path


def _read(path: Path) -> dict[str, Any]:
    remedy = "remove it, and evaluate again"
    figures = read_object(path, remedy)
    try:
        _counted(figures)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise CorruptFileError(f"{path} is corrupt or was edited: {error}", remedy) from None
    return figures


def _counted(figures: Mapping[str, Any]) -> int:
    return prod(int(figures.get(name, 1)) for name in COUNTED)
