"""SAGE: shaping anchors for guided exploration in RLVR, as an experiment suite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sage_cli.analysis.open_runs import OpenedRuns
    from sage_cli.training.guided_trainer import GuidedGRPOTrainer

__all__ = ["RESULT_VERSION", "GuidedGRPOTrainer", "open_runs"]

__version__ = "0.1.0"

RESULT_VERSION = 5
"""Raised whenever a change of the code changes what a run computes; part of a run's identity."""


def open_runs(root: Path | str | None = None) -> OpenedRuns:
    """The runs below a folder, or those that `sage` finds, as data (docs/python.md)."""
    from sage_cli.analysis.open_runs import open_runs as opened

    return opened(root)


def __getattr__(name: str) -> Any:
    """Load TRL only when its trainer is asked for, so that `sage --help` stays quick."""
    if name == "GuidedGRPOTrainer":
        from sage_cli.training.guided_trainer import GuidedGRPOTrainer

        return GuidedGRPOTrainer
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
