"""`sampling`: how evaluation draws completions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.config.base import COSMETIC
from sage_cli.config.decoding import DecodingSection


class SamplingSection(DecodingSection):
    """How evaluation samples: as in training but for the temperature (Appendix F)."""

    backend: Literal["auto", "transformers", "vllm", "server"] = Field(
        "auto", json_schema_extra=COSMETIC
    )
    temperature: float = Field(0.3, ge=0)
    batch_rows: int = Field(256, ge=1, json_schema_extra=COSMETIC)
    """Completions that are decoded together (`transformers`) or in flight at once (`server`)."""
    servers: tuple[str, ...] = Field((), json_schema_extra=COSMETIC)
    server_model: str | None = Field(None, json_schema_extra=COSMETIC)
    timeout_s: float = Field(600, gt=0, json_schema_extra=COSMETIC)
