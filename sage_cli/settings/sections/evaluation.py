"""`evaluation`: which problems are measured, with how many samples."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.base import COSMETIC, Section
from sage_cli.settings.sections.data import FieldsSection


class EvaluationSection(Section):
    """Problems, number of samples and values of k of a measurement."""

    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """`official`: the authors' settings of an evaluation, as docs/fidelity.md lists them."""
    benchmark: str = "aime,amc23,math500-l5"
    """Names of `sage data list`, comma-separated, or a file of problems."""
    fields: FieldsSection = FieldsSection()
    """Columns of a benchmark that is a file."""
    samples: int = Field(256, ge=1)
    """Completions sampled for each problem: n of pass@k."""
    k: str = "1,256"
    """The ks of tables, as 1,10,256 or 1..256."""
    seeds: int = Field(1, ge=1)
    """How many evaluation seeds: seed, seed + 1, ..."""
    seed: int = 0
    """The first evaluation seed."""
    limit: int | None = Field(None, ge=1)
    """Only the first problems of each benchmark."""
    confidence: float = Field(0.95, gt=0, lt=1)
    """Level of intervals and bands."""
    bootstrap: int = Field(2000, ge=100)
    """Resamples over problems where an interval is bootstrapped."""
    every: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """RL steps between two validations of the policy in training; null: none."""
    validation: str | None = Field(None, json_schema_extra=COSMETIC)
    """The validation problems; null: those of `sweep.benchmark`."""
    validation_samples: int = Field(16, ge=1, json_schema_extra=COSMETIC)
    """Samples a problem at each validation."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Measure a run under another prompt template than it was trained with."""
