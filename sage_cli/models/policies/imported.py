"""Runs of imported samples: where their problems are, and under which settings they count."""

from __future__ import annotations

from typing import Any

from sage_cli.settings.presets import read_layer
from sage_cli.store.runs.manifest import IMPORTED
from sage_cli.store.runs.run import Run

PROBLEMS = "problems.jsonl"
"""The file of an imported run with its problems: `question`, `gold`, and the program's `id`."""
NO_GOLD = "(the imported file has no gold)"
"""Stands for the gold of a problem that has none; only the program's verdicts count on it."""


def stored_settings(run: Run) -> dict[str, Any]:
    """Return a run's stored configuration; the benchmark of an imported one is its own problems.

    They lie beside the configuration, so that a folder of runs may be moved, and the configuration
    names no other file.
    """
    settings = read_layer(run.folder / "config.json")
    if run.manifest.get("kind") != IMPORTED:
        return settings
    own = {"benchmark": str(run.folder / PROBLEMS), "fields": {}}
    return {**settings, "evaluation": {**settings.get("evaluation", {}), **own}}


def known_sampling(run: Run) -> dict[str, Any]:
    """Return what the file of an imported run says of sampling: numbers and texts alone."""
    said = (run.manifest.get("imported") or {}).get("settings") or {}
    numbers = ("temperature", "top_p", "max_tokens", "seed")
    return {
        key: value
        for key, value in said.items()
        if isinstance(value, int | float if key in numbers else str | int | float)
    }
