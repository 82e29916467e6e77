"""The options of analyses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from sage_cli.settings.section import Listed, Section


class AnalysisOptions(Section):
    """The options of `sage analyze` beside its settings; null if an option was not given."""

    base: str | None = None
    problems: Listed = ()
    """Prefixes of ids."""
    delta: str | None = None
    patterns: Path | None = None
    alpha: tuple[Annotated[float, Field(gt=1)], ...] | None = None
    survival: bool | None = None
