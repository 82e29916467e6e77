"""`run`: where results go."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from sage_cli.settings.section import COSMETIC, Section

_ROOT_VARIABLE = "SAGE_RUNS"


def default_root() -> Path:
    """Return the folder of runs where no flag or setting names one: `$SAGE_RUNS`, or `runs`."""
    return Path(os.environ.get(_ROOT_VARIABLE) or "runs")


class RunSection(Section):
    """The place of results. None of these settings changes a result."""

    root: Path = Field(default_factory=default_root, json_schema_extra=COSMETIC)
    """Folder of runs. The first of these is used: `--runs`, this setting, `$SAGE_RUNS`, and
    `runs`."""
    sweep: str | None = Field(None, json_schema_extra=COSMETIC)
    """Name of the sweep that the run belongs to. Such a run is never used as the latest run."""
