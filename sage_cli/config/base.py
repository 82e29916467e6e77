"""What every section shares: unknown keys refused, frozen after loading, numbers finite."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A noun of the schema. A class's defaults are the paper's setting (Tables 7 and 8)."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )
