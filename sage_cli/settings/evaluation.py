"""`evaluation`: what is measured, with how many samples."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.data import FieldsSection
from sage_cli.settings.section import COSMETIC, Section


class EvaluationSection(Section):
    """The problems, the number of samples and the values of k of a measurement."""

    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """Source of default values: `official` uses the authors' settings of an evaluation, which
    docs/fidelity.md lists."""
    benchmark: str = "aime,amc23,math500-l5"
    """Benchmarks that are measured: comma-separated names from `sage data list`, or a file of
    problems."""
    fields: FieldsSection = FieldsSection()
    """Columns of a benchmark that is a file."""
    samples: int = Field(256, ge=1, le=1_000_000)
    """Number n of completions that are sampled per problem."""
    k: str = "1,256"
    """Values of k that are shown in tables, for example 1,10,256 or 1..256."""
    seeds: int = Field(1, ge=1, le=1_000)
    """Number of evaluation seeds that are used: seed, seed + 1, and so on."""
    seed: int = 0
    """First evaluation seed that is used."""
    limit: int | None = Field(None, ge=1)
    """Number of problems to use from the beginning of each benchmark; null uses all."""
    confidence: float = Field(0.95, gt=0, lt=1)
    """Confidence level that intervals and bands have."""
    bootstrap: int = Field(2000, ge=100, le=100_000)
    """Number of bootstrap resamples that are drawn over problems."""
    every: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of RL steps between two validations during training; null means no validation."""
    validation: str | None = Field(None, json_schema_extra=COSMETIC)
    """Benchmark for validation during training; null means that of `sweep.benchmark`."""
    validation_samples: int = Field(16, ge=1, json_schema_extra=COSMETIC)
    """Number of samples per problem that are drawn at each validation."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether a run may be measured with another prompt template than it was trained with."""
