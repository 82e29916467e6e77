"""What is measured, and who grades it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from sage_cli.settings.judge_names import (
    BUILT_IN_JUDGES,
    IMPORTED_JUDGE,
    Extraction,
    GradingMode,
    Unfinished,
)
from sage_cli.settings.own_code import OwnFunction, names_code, require_name
from sage_cli.settings.section import COSMETIC, WHERE_SET, Listed, Section
from sage_cli.settings.sections.data import FieldsSection


class EvaluationSection(Section):
    """Problems, number of samples and values of k of a measurement."""

    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """`official`: the authors' settings of an evaluation, as docs/fidelity.md lists them."""
    benchmark: str = "aime,amc23,math500-l5"
    """Names of `sage data list`, comma-separated, or a file of problems."""
    fields: FieldsSection = FieldsSection()
    """Columns of a benchmark that is a file."""
    samples: int = Field(256, ge=1, le=1_000_000)
    """Completions sampled for each problem: n of pass@k."""
    k: str = "1,256"
    """The ks of tables, as 1,10,256 or 1..256."""
    seeds: int = Field(1, ge=1, le=1_000)
    """How many evaluation seeds: seed, seed + 1, ..."""
    seed: int = 0
    """The first evaluation seed."""
    limit: int | None = Field(None, ge=1)
    """Only the first problems of each benchmark."""
    confidence: float = Field(0.95, gt=0, lt=1)
    """Level of intervals and bands."""
    bootstrap: int = Field(2000, ge=100, le=100_000)
    """Resamples over problems where an interval is bootstrapped."""
    every: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """RL steps between two validations of the policy in training; null: none."""
    validation: str | None = Field(None, json_schema_extra=COSMETIC)
    """The validation problems; null: those of `sweep.benchmark`."""
    validation_samples: int = Field(16, ge=1, json_schema_extra=COSMETIC)
    """Samples a problem at each validation."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Measure a run under another prompt template than it was trained with."""


class GradingSection(Section):
    """`strict` is sage's judge; `math-verify` the field's plain recipe, for comparison."""

    judge: str | None = Field(None, json_schema_extra=WHERE_SET)
    """The judge of everything that is graded: a name, as `math`, or a function of one's own, as
    `mine.py:close`. `imported` is the verdict that came with imported samples. null: the data
    set's own, which for a file is `math`."""
    mode: GradingMode = "strict"
    """`strict`: sage's judge; `math-verify`: that library's alone."""
    extract: Extraction | None = None
    """Where a completion's answer stands; null takes the prompt's (`prompt.answer`). `text` has
    Math-Verify search the whole completion, as the authors do, and needs its mode."""
    unfinished: Unfinished = Field("wrong", json_schema_extra=WHERE_SET)
    """A completion that ends inside a thought, after `<think>` without `</think>`: `wrong`, or
    `graded` like any other."""
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


class AnalysisOptions(Section):
    """The options of `sage analyze` beside its settings; null if an option was not given."""

    base: str | None = None
    problems: Listed = ()
    """Prefixes of ids."""
    delta: str | None = None
    patterns: Path | None = None
    alpha: tuple[Annotated[float, Field(gt=1)], ...] | None = None
    survival: bool | None = None
