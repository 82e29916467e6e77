"""`grading`: how answers are judged."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from sage_cli.settings.base import COSMETIC, WHERE_SET, Section
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.plugins import require_name
from sage_cli.settings.sections.judging import (
    BUILT_IN_JUDGES,
    IMPORTED_JUDGE,
    JUDGES_GROUP,
    Extraction,
    GradingMode,
)


class GradingSection(Section):
    """`strict` is sage's judge; `math-verify` the field's plain recipe, for comparison."""

    judge: str | None = Field(None, json_schema_extra=WHERE_SET)
    """The judge of everything that is graded: a name, as `math`, or a function of one's own, as
    `mine.py:close` or `package.module:close`. `imported` is the verdict that came with imported
    samples. null: the data set's own, which for a file is `math`."""
    mode: GradingMode = "strict"
    """`strict`: sage's judge; `math-verify`: that library's alone."""
    extract: Extraction | None = None
    """Where a completion's answer stands; null takes the prompt's (`prompt.answer`). `text` has
    Math-Verify search the whole completion, as the authors do, and needs its mode."""
    workers: int = Field(1, ge=1, json_schema_extra=COSMETIC)
    """Processes that grade."""
    timeout_s: int = Field(5, ge=1, le=86_400)
    """Seconds for one answer; what takes longer has the status `timeout`."""
    memory_mb: int = Field(1024, ge=128)
    """Memory of a grading process."""
    tolerance: float | None = Field(None, ge=0, lt=1)
    """Relative tolerance of numeric answers; null takes the benchmark's own (Minerva has one), 0
    demands exact answers of all."""

    @field_validator("judge")
    @classmethod
    def _is_known(cls, judge: str | None, info: ValidationInfo) -> str | None:
        if judge is not None and names_code(judge):
            OwnFunction.of(judge).require()
        elif judge not in (None, IMPORTED_JUDGE):
            require_name(JUDGES_GROUP, judge, BUILT_IN_JUDGES, info)
        return judge

    def determinants(self) -> dict[str, Any]:
        """A function of one's own counts by its content."""
        found = super().determinants()
        if self.judge is not None and names_code(self.judge):
            found["judge"] = OwnFunction.of(self.judge).identity
        return found
