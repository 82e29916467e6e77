"""`sampling`: how evaluation draws completions."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sage_cli.config.base import COSMETIC
from sage_cli.config.decoding import DecodingSection
from sage_cli.config.plugins import require_name

SAMPLER_GROUP = "sage_cli.samplers"
BUILT_IN = ("auto", "transformers", "vllm", "server")


class SamplingSection(DecodingSection):
    """How evaluation samples: as in training but for the temperature (Appendix F)."""

    backend: str = Field("auto", json_schema_extra=COSMETIC)
    """What draws: `auto`, `transformers`, `vllm`, `server`, or what a package registers."""
    options: dict[str, Any] = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Settings of a registered backend that change how it draws, not what."""
    temperature: float = Field(0.3, ge=0)
    batch_rows: int = Field(256, ge=1, json_schema_extra=COSMETIC)
    """Completions that are decoded together (`transformers`) or in flight at once (`server`)."""
    servers: tuple[str, ...] = Field((), json_schema_extra=COSMETIC)
    server_model: str | None = Field(None, json_schema_extra=COSMETIC)
    timeout_s: float = Field(600, gt=0, json_schema_extra=COSMETIC)

    @field_validator("backend")
    @classmethod
    def _is_known(cls, backend: str, info: ValidationInfo) -> str:
        require_name(SAMPLER_GROUP, backend, BUILT_IN, info)
        return backend

    @model_validator(mode="after")
    def _options_have_a_reader(self) -> SamplingSection:
        if self.options and self.backend in BUILT_IN:
            raise ValueError(
                f"options are settings of a registered backend; '{self.backend}' reads none"
            )
        return self
