"""`grading`: what counts as correct."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from sage_cli.errors import ConfigurationError
from sage_cli.settings.judge_names import (
    BUILT_IN_JUDGES,
    IMPORTED_JUDGE,
    Extraction,
    GradingMode,
    Unfinished,
)
from sage_cli.settings.own_code import OwnFunction, names_code, require_name
from sage_cli.settings.section import COSMETIC, WHERE_SET, Section


class GradingSection(Section):
    """Grading of completions. `strict` is sage's judge; `math-verify` is Math-Verify alone, for
    comparison."""

    judge: str | None = Field(None, json_schema_extra=WHERE_SET)
    """Judge that grades completions: a name, for example `math`, or your own function, for example
    `mine.py:close`. `imported` uses the verdict that came with imported samples. null means the
    data set's own judge, which is `math` for a file."""
    mode: GradingMode = "strict"
    """Mode of the judge `math`: `strict` is sage's, `math-verify` is that library alone."""
    extract: Extraction | None = None
    """Place of the answer in a completion; null means the one that the prompt asks for
    (`prompt.answer`). With `text`, Math-Verify searches the whole completion, as in the
    authors' code; it needs `grading.mode=math-verify`."""
    unfinished: Unfinished = Field("wrong", json_schema_extra=WHERE_SET)
    """Grade of a completion that ends within its reasoning, after `<think>` without `</think>`: it
    is `wrong`, or `graded` like any other."""
    workers: int = Field(1, ge=1, json_schema_extra=COSMETIC)
    """Number of processes that are used for grading."""
    timeout_s: int = Field(5, ge=1, le=86_400)
    """Number of seconds for grading one answer. An answer that takes longer has the status
    `timeout`."""
    memory_mb: int = Field(1024, ge=128)
    """Memory that a grading process may use, in MB."""
    tolerance: float | None = Field(None, ge=0, lt=1)
    """Relative tolerance for numeric answers. null means the benchmark's own (for example Minerva
    has one), and 0 accepts exact answers only."""

    @field_validator("judge")
    @classmethod
    def _is_known(cls, judge: str | None) -> str | None:
        if judge is not None and names_code(judge):
            OwnFunction.parse(judge).require()
        elif judge not in (None, IMPORTED_JUDGE):
            require_name("judge", judge, BUILT_IN_JUDGES)
        return judge

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a grade; a function of one's own by its content."""
        settings = super().determinants()
        if self.judge is not None and names_code(self.judge):
            settings["judge"] = OwnFunction.parse(self.judge).identity
        return settings

    def require_judge(self) -> None:
        """Raise ConfigurationError if completions would be graded by verdicts that they lack."""
        if self.judge == IMPORTED_JUDGE:
            raise ConfigurationError(
                f"grading.judge={IMPORTED_JUDGE} is the verdict that came with "
                "imported samples, and cannot grade new ones",
                "choose a judge, for example --set grading.judge=math, or leave it out",
            )
