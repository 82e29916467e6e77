"""`grading`: how answers are judged."""

from __future__ import annotations

from pydantic import Field

from sage_cli.settings.base import COSMETIC, Section
from sage_cli.settings.sections.judging import Extraction, GradingMode


class GradingSection(Section):
    """`strict` is sage's judge; `math-verify` the field's plain recipe, for comparison."""

    mode: GradingMode = "strict"
    """`strict`: sage's judge; `math-verify`: that library's alone."""
    extract: Extraction | None = None
    """Where a completion's answer stands; null takes the prompt's (`prompt.answer`). `text` has
    Math-Verify search the whole completion, as the authors do, and needs its mode."""
    workers: int = Field(1, ge=1, json_schema_extra=COSMETIC)
    """Processes that grade."""
    timeout_s: int = Field(5, ge=1)
    """Seconds for one answer; what takes longer has the status `timeout`."""
    memory_mb: int = Field(1024, ge=128)
    """Memory of a grading process."""
    tolerance: float | None = Field(None, ge=0, lt=1)
    """Relative tolerance of numeric answers; null takes the benchmark's own (Minerva has one), 0
    demands exact answers of all."""
