"""`sampling`: how completions are sampled to be measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sage_cli.settings.decoding import DecodingSection, engine_problems
from sage_cli.settings.own_code import is_to_be_checked, plugin_names, require_name
from sage_cli.settings.section import COSMETIC

SAMPLER_GROUP = "sage_cli.samplers"
BUILT_IN = ("auto", "builtin", "vllm", "server")
ServerForm = Literal["completions", "chat"]


class SamplingSection(DecodingSection):
    """Sampling during evaluation, which is the same as in training except for the temperature
    (Appendix F)."""

    backend: str = Field("auto", json_schema_extra=COSMETIC)
    """Program that samples: `builtin` (sage's own decoding loop), `vllm`, `server`, or one that a
    package registers. `auto` chooses vLLM if it is installed and there is a GPU, and otherwise
    `builtin`. The old spelling `transformers` means `builtin`."""
    options: dict[str, Any] = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Settings of a registered backend. They may change its speed, but not its samples."""
    vllm: dict[str, Any] = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Arguments of vLLM's engine that do not change the samples, for example tensor_parallel_size,
    max_model_len or gpu_memory_utilization."""
    temperature: float = Field(0.3, ge=0)
    """Sampling temperature; 0 means greedy decoding."""
    stop_at_answer: bool = True
    """Whether a completion ends at the closing answer tag. If false, only the model's
    end-of-sequence token or the length ends it."""
    batch_rows: int = Field(256, ge=1, json_schema_extra=COSMETIC)
    """Number of completions that are decoded together (`builtin`) or requested at once
    (`server`)."""
    servers: tuple[str, ...] = Field((), json_schema_extra=COSMETIC)
    """Addresses at which OpenAI-compatible servers are reached, for example http://HOST:8000/v1."""
    server_model: str | None = None
    """Name that the servers use for the model, if they cannot show that it is the model that you
    mean. Its samples are stored separately from those of the model itself."""
    server_form: ServerForm = "completions"
    """Form of a request: `completions` sends the prompt as it is, and `chat` sends messages to
    which the server applies its own template. The latter is another prompt, so that its samples
    are stored separately."""
    timeout_s: float = Field(600, gt=0, le=86_400, json_schema_extra=COSMETIC)
    """Number of seconds that one request to a server may take."""
    server_attempts: int = Field(10, ge=1, json_schema_extra=COSMETIC)
    """Number of times that a request is sent before the command fails."""
    server_patience_s: float = Field(300, ge=0, json_schema_extra=COSMETIC)
    """Number of seconds, pauses included, during which a failed request is repeated before the
    command fails."""

    @field_validator("backend")
    @classmethod
    def _is_known(cls, backend: str, info: ValidationInfo) -> str:
        if is_to_be_checked(info, SAMPLER_GROUP):  # one that is only looked at may be missing
            require_name("sampler", backend, (*BUILT_IN, *plugin_names(SAMPLER_GROUP)))
        return backend

    @model_validator(mode="after")
    def _options_have_a_reader(self) -> SamplingSection:
        if self.options and self.backend in BUILT_IN:
            raise ValueError(
                f"options are settings of a registered backend; '{self.backend}' reads none"
            )
        return self

    @model_validator(mode="after")
    def _engines_can_run(self) -> SamplingSection:
        problems = engine_problems(self.vllm)
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def tensor_parallel(self) -> int:
        """GPUs of one engine."""
        return int(self.vllm.get("tensor_parallel_size", 1))

    @property
    def asks_servers(self) -> bool:
        """Return True if servers sample; `auto` takes those that are named."""
        return self.backend == "server" or (self.backend == "auto" and bool(self.servers))

    @property
    def served(self) -> dict[str, str]:
        """Return the settings through which a server decides the samples themselves.

        Nothing where they complete the prompt as it is with the very model that is meant.
        """
        chosen = {"server_model": self.server_model, "server_form": self.server_form}
        usual = {"server_model": None, "server_form": "completions"}
        return {k: v for k, v in chosen.items() if v and v != usual[k] and self.asks_servers}
