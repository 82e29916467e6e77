"""`rollout`: how training samples, and the engine that does it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from sage_cli.config.base import COSMETIC, Section
from sage_cli.config.decoding import DecodingSection

Backend = Literal["auto", "sampler", "transformers", "vllm"]
Correction = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "none"]


class VllmRolloutSection(Section):
    """vLLM for rollouts: an engine inside the training's processes, or a server beside them.

    `importance_correction` weights the loss by the ratio of the trainer's probabilities to the
    engine's, of each token or of a whole completion; above `importance_cap` it is cut off
    (`truncate`) or counts nothing (`mask`).
    """

    mode: Literal["colocate", "server"] = "colocate"
    """Where the engine is: in the training's processes, or behind `server_url`."""
    importance_correction: Correction = "token_truncate"
    """How the loss weighs the ratio of the trainer's probabilities to the engine's."""
    importance_cap: float = Field(2.0, gt=0)
    """The ratio's upper end."""
    max_model_len: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Tokens of prompt and completion together; null: the longest prompt's and
    `rollout.max_tokens`. A server is told when it starts."""
    tensor_parallel: int = Field(1, ge=1)
    """Colocated: so many processes of the training hold one engine between them."""
    memory_share: float = Field(0.3, gt=0, lt=1, json_schema_extra=COSMETIC)
    """Colocated: the engine's share of a GPU, for weights and key-value cache."""
    sleep: bool = Field(False, json_schema_extra=COSMETIC)
    """Colocated: the engine gives its memory back while the policy is trained."""
    server_url: str | None = Field(None, json_schema_extra=COSMETIC)
    """The address of `vllm serve`."""
    server_model: str | None = Field(None, json_schema_extra=COSMETIC)
    """What the server calls the model, where it can't tell that it is the one trained."""
    server_timeout_s: float = Field(240, gt=0, json_schema_extra=COSMETIC)
    """How long a server may take to come up."""
    server_group_port: int = Field(51216, ge=1, le=65535, json_schema_extra=COSMETIC)
    """Where trainer and server meet to hand weights over; one for each training of a machine."""

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> VllmRolloutSection:
        if self.mode == "server" and self.server_url is None:
            raise ValueError(
                "mode 'server' needs the server's address "
                "(use --set rollout.vllm.server_url=http://HOST:PORT, or mode=colocate)"
            )
        return self


class RolloutSection(DecodingSection):
    """How training samples."""

    backend: Backend = "auto"
    """`sampler`: what `sage passk` draws with; `transformers`: that library's `generate`. `auto`:
    vLLM where there are both it and a GPU; without a GPU `sampler`, if each process holds all
    weights; else `transformers`."""
    temperature: float = Field(1.0, gt=0)
    """Of the softmax that tokens are drawn from."""
    vllm: VllmRolloutSection = VllmRolloutSection()

    @property
    def may_use_vllm(self) -> bool:
        """Whether vLLM draws, or may where `auto` finds it."""
        return self.backend in ("auto", "vllm")

    def determinants(self) -> dict[str, Any]:
        """Without vLLM's settings where it isn't used."""
        found = super().determinants()
        return {k: v for k, v in found.items() if k != "vllm" or self.may_use_vllm}

    @model_validator(mode="after")
    def _completions_fit(self) -> RolloutSection:
        length = self.vllm.max_model_len
        if length is not None and length <= self.max_tokens:
            raise ValueError(
                f"vllm.max_model_len {length} is prompt and completion together, and max_tokens "
                f"alone is {self.max_tokens} (leave it out, or use more than the latter)"
            )
        return self
