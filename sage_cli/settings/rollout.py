"""`rollout`: how completions are sampled in training."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.section import COSMETIC, WHERE_SET, Section

Backend = Literal["auto", "builtin", "transformers", "vllm"]
Correction = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "none"]
LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]
SERVER_URL = "rollout.vllm.server_url"
"""Not taken over from a stored configuration: it is lacking where nothing is to be trained."""
NO_SERVER = (
    "mode 'server' needs the server's address "
    f"(use --set {SERVER_URL}=http://HOST:PORT, or mode=colocate)"
)


class VllmRolloutSection(Section):
    """vLLM for rollouts: an engine inside the training's processes, or a server beside them.

    `importance_correction` weights the loss by the ratio of the trainer's probabilities to the
    engine's, of each token or of a whole completion; above `importance_cap` it is cut off
    (`truncate`) or counts nothing (`mask`). Under min_p, top_p or top_k the ratio is of whole
    distributions, before any token is left out: this needs temperature 1 and a `token_*` mode.
    """

    mode: Literal["colocate", "server"] = "colocate"
    """Place of the vLLM engine: `colocate` puts it into the training processes, `server` uses the
    one at `server_url`."""
    importance_correction: Correction = "token_truncate"
    """Correction by which the loss accounts for the ratio of the trainer's probabilities to those
    of vLLM."""
    importance_cap: float = Field(2.0, gt=0)
    """Upper end at which that ratio is cut."""
    importance_floor: float | None = Field(None, ge=0, json_schema_extra=WHERE_SET)
    """Lower end of that ratio. Below it, the ratio is raised to it (`truncate`), or the token or
    completion is ignored (`mask`); null means no lower end."""
    max_model_len: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Largest number of tokens of prompt and completion together. null means the longest prompt
    plus `rollout.max_tokens`. A vLLM server needs it when it is started."""
    tensor_parallel: int = Field(1, ge=1)
    """Number of training processes that use one colocated engine."""
    memory_share: float = Field(0.3, gt=0, lt=1, json_schema_extra=COSMETIC)
    """Share of a GPU's memory that the weights and key-value cache of a colocated engine may
    use."""
    sleep: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether a colocated engine releases its memory while the policy is trained."""
    server_url: str | None = Field(None, json_schema_extra=COSMETIC)
    """Address at which `vllm serve` is reached, for example `http://HOST:8000`."""
    server_model: str | None = Field(None, json_schema_extra=COSMETIC)
    """Name that the server uses for the model, if the server cannot show that it serves the model
    that is trained."""
    server_timeout_s: float = Field(240, gt=0, le=86_400, json_schema_extra=COSMETIC)
    """Number of seconds in which a server must start."""
    server_group_port: int = Field(51216, ge=1, le=65535, json_schema_extra=COSMETIC)
    """Port at which the trainer sends weights to the server. Each training run on a machine needs
    its own."""

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self, info: ValidationInfo) -> VllmRolloutSection:
        stored = SERVER_URL in (info.context or ())
        if self.mode == "server" and self.server_url is None and not stored:
            raise ValueError(NO_SERVER)
        if self.importance_floor is not None and self.importance_floor > self.importance_cap:
            raise ValueError(
                f"importance_floor {self.importance_floor:g} is above importance_cap "
                f"{self.importance_cap:g}"
            )
        return self


class RolloutSection(DecodingSection):
    """Sampling during training."""

    backend: Backend = "auto"
    """Program that samples the rollouts: `builtin` is sage's own decoding loop, which `sage passk`
    uses too, `transformers` is that library's `generate`, and `vllm` is vLLM. `auto` chooses
    vLLM if it is installed and there is a GPU, `builtin` without a GPU if each process has all
    weights, and otherwise `transformers`. The old spelling `sampler` means `builtin`."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature: logits are divided by it."""
    stop_at_answer: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether a rollout ends at the closing answer tag. If false, only the model's end-of-sequence
    token or the length ends it."""
    vllm: VllmRolloutSection = VllmRolloutSection()

    @property
    def may_use_vllm(self) -> bool:
        """Return True if vLLM samples, or may where `auto` finds it."""
        return self.backend in ("auto", "vllm")

    @property
    def logprobs_mode(self) -> LogprobsMode:
        """Return the kind of log-probabilities that vLLM returns, so that they match the trainer's.

        The trainer's are tempered, over the whole vocabulary. vLLM's `processed` ones are tempered
        and renormalised over the tokens that truncation keeps; its `raw` ones are neither.
        """
        whole = self.truncates and self.temperature == 1
        return "raw_logprobs" if whole else "processed_logprobs"

    def correction_problem(self) -> tuple[str, str] | None:
        """Return why the ratio to vLLM's probabilities would be wrong and the remedy, or None.

        Of tempered and truncated samples vLLM has no log-probabilities over the whole vocabulary:
        each token's ratio would be the share of probability that is kept, on the policy's term
        alone, so that the KL term would weigh more.
        """
        correction = self.vllm.importance_correction
        if correction == "none" or not self.truncates:
            return None
        if correction.startswith("sequence"):
            return (
                f"vllm.importance_correction '{correction}' multiplies the ratios of a "
                "completion's tokens, and min_p, top_p or top_k make it another distribution's "
                "than the one sampled from, token by token",
                "use rollout.vllm.importance_correction=token_truncate, or rollout.min_p=0 with "
                "top_p 1 and top_k 0",
            )
        if self.temperature != 1:
            return (
                f"vllm.importance_correction '{correction}' needs log-probabilities over the whole "
                f"vocabulary, which vLLM has at temperature 1, and temperature is "
                f"{self.temperature:g} with min_p, top_p or top_k",
                "use rollout.temperature=1, or rollout.min_p=0 with top_p 1 and top_k 0, or "
                "rollout.vllm.importance_correction=none",
            )
        return None

    @model_validator(mode="after")
    def _corrects_what_is_sampled(self) -> RolloutSection:
        """Under `auto` a tempered rollout is refused where vLLM is found (`resolve_engine`)."""
        chosen = self.vllm.importance_correction.startswith("sequence")
        problem = self.correction_problem()
        if problem and (self.backend == "vllm" or (self.backend == "auto" and chosen)):
            raise ValueError(f"{problem[0]} ({problem[1]})")
        return self

    def determinants(self) -> dict[str, Any]:
        """Without vLLM's settings where it isn't used."""
        settings = super().determinants()
        return {k: v for k, v in settings.items() if k != "vllm" or self.may_use_vllm}

    @model_validator(mode="after")
    def _completions_fit(self) -> RolloutSection:
        length = self.vllm.max_model_len
        if length is not None and length <= self.max_tokens:
            raise ValueError(
                f"vllm.max_model_len {length} has to hold prompt and completion, and max_tokens of "
                f"the completion is {self.max_tokens} (raise vllm.max_model_len, or leave it out)"
            )
        return self
