"""lighteval's `--save-details`: details_TASK_DATE.parquet, a row a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sage_cli.evaluation.imported.foreign import ForeignFile, ForeignSample


def recognise(row: Mapping[str, Any]) -> bool:
    """Return True if a row is of such a file."""
    return {"doc", "model_response", "metric"} <= row.keys()


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples."""
    return ForeignFile("lighteval", [])
