"""How completions are sampled, in training and in evaluation, graded and counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sage_cli.errors import ConfigurationError
from sage_cli.json_value import is_number
from sage_cli.settings.inputs import FieldsSection
from sage_cli.settings.judge_names import (
    BUILT_IN_JUDGES,
    IMPORTED_JUDGE,
    Extraction,
    GradingMode,
    Unfinished,
)
from sage_cli.settings.own_code import (
    OwnFunction,
    is_to_be_checked,
    names_code,
    plugin_names,
    require_name,
)
from sage_cli.settings.section import COSMETIC, WHERE_SET, Listed, Section

DECIDED_ELSEWHERE = {
    "model": "the command's model",
    "tokenizer": "the command's model",
    "tokenizer_mode": "the command's model",
    "tokenizer_revision": "model.revision",
    "code_revision": "model.revision",
    "dtype": "model.dtype",
    "seed": "evaluation.seed",
    "revision": "model.revision",
    "trust_remote_code": "model.trust_remote_code",
    "max_num_seqs": "sampling.batch_rows",
    "data_parallel_size": "one command a GPU, or servers",
    "generation_config": "the settings of `sampling`",
    "override_generation_config": "the settings of `sampling`",
    "enable_lora": "the adapter itself",
    "max_lora_rank": "the adapter itself",
}
"""Arguments of the engine that other settings decide."""
OF_ANOTHER_MODEL = (
    "quantization",
    "quantization_config",
    "kv_cache_dtype",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "disable_sliding_window",
    "hf_overrides",
    "hf_config_path",
    "model_class_overrides",
    "lora_dtype",
    "lora_target_modules",
    "logits_processors",
    "watermark_config",
    "load_format",
    "model_impl",
)
"""Arguments that would have another model, or distribution, sampled from under this one's name."""


def engine_problems(settings: Mapping[str, Any]) -> list[str]:
    """Return the problems of `sampling.vllm`, one sentence each; unknown keys are left to vLLM."""
    problems = [
        f"vllm.{name} is decided by {DECIDED_ELSEWHERE[name]}: leave it out"
        for name in settings
        if name in DECIDED_ELSEWHERE
    ]
    problems += [
        f"vllm.{name} changes what is sampled, and its samples would be kept as the stored "
        "model's: save the changed model and measure that"
        for name in settings
        if name in OF_ANOTHER_MODEL
    ]
    share = settings.get("gpu_memory_utilization", 0.9)
    if not is_number(share) or not 0 < share <= 1:
        problems.append(
            f"vllm.gpu_memory_utilization {share} isn't a share of the GPU's memory, in (0, 1]"
        )
    for name in ("tensor_parallel_size", "max_model_len"):
        value = settings.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            problems.append(f"vllm.{name} {value} isn't a whole number of at least 1")
    return problems


class DecodingSection(Section):
    """The distribution that tokens are sampled from, and how many at most."""

    temperature: float = Field(1.0, ge=0)
    """Sampling temperature; 0 means greedy decoding."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus sampling: tokens are sampled from the smallest set with this probability; 1 turns it
    off."""
    top_k: int = Field(0, ge=0)
    """Number of most likely tokens that are sampled from; 0 turns this off."""
    min_p: float = Field(0.01, ge=0, lt=1)
    """Smallest probability of a token that can be sampled, as a share of the most likely token's; 0
    turns this off."""
    max_tokens: int = Field(2048, ge=1)
    """Length at which a completion is truncated, in tokens."""

    @property
    def truncates(self) -> bool:
        """Return True if min_p, top_p or top_k exclude tokens."""
        return self.min_p > 0 or self.top_p < 1 or self.top_k > 0


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


_TOKEN = re.compile(r"(?P<first>\d+)(\.\.(?P<last>\d+)(:(?P<step>\w+))?)?")
_LARGEST_K = 1_000_000
_GRAMMAR = "write ks as 1..256, 1,8,64 or 1..256:pow2"


def parse_ks(text: str, n: int | None = None, option: str = "--n") -> tuple[int, ...]:
    """Return the ks that `text` names, ascending and without repetition.

    `a..b` is every k from a to b, `a..b:pow2` the powers of two among them; commas stand between
    ks and ranges. With `n`, the number of samples per problem that `option` sets, k > n is refused.
    Raises ConfigurationError naming the token.
    """
    ks: set[int] = set()
    for token in text.split(","):
        ks.update(_expand(token.strip(), n, option))
    return tuple(sorted(ks))


def capped_ks(text: str, n: int) -> str:
    """`text` with every k and every range's end above `n` brought down to it: 1..256 to 1..64.

    What is not a k or range stays as it is, for `parse_ks` to refuse.
    """
    return ",".join(_capped(token.strip(), n) for token in text.split(","))


def _capped(token: str, n: int) -> str:
    first, *more = token.split("..", 1)
    last, *step = more[0].split(":", 1) if more else (first,)
    if not (first.isdecimal() and last.isdecimal()) or int(last) <= n:
        return token
    if int(first) >= n or (step and 1 << n.bit_length() - 1 < int(first)):
        return str(n)
    return ":".join([f"{first}..{n}", *step])


def _expand(token: str, n: int | None, option: str) -> list[int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ConfigurationError(f"'{token}' is not a k or a range of ks", _GRAMMAR)
    first = int(match["first"])
    last = first if match["last"] is None else int(match["last"])
    if match["step"] not in (None, "pow2"):
        raise ConfigurationError(
            f"'{token}': the only step is pow2, not '{match['step']}'", _GRAMMAR
        )
    if first < 1:
        raise ConfigurationError(f"'{token}': k starts at 1", _GRAMMAR)
    if last < first:
        raise ConfigurationError(f"'{token}': the range ends before it begins", _GRAMMAR)
    if n is not None and last > n:
        raise ConfigurationError(
            f"'{token}': pass@{last} is undefined with {n} samples per problem (k > n)",
            f"use k up to {n}, or sample more: {option} {last}",
        )
    if last > _LARGEST_K:
        raise ConfigurationError(f"'{token}': k is at most {_LARGEST_K:,}", _GRAMMAR)
    if match["step"] is None:
        return list(range(first, last + 1))
    powers = [1 << bit for bit in range(last.bit_length()) if first <= 1 << bit <= last]
    if not powers:
        raise ConfigurationError(f"'{token}': this range contains no power of two", _GRAMMAR)
    return powers


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


class AnalysisOptions(Section):
    """The options of `sage analyze` beside its settings; null if an option was not given."""

    base: str | None = None
    problems: Listed = ()
    """Prefixes of ids."""
    delta: str | None = None
    patterns: Path | None = None
    alpha: tuple[Annotated[float, Field(gt=1)], ...] | None = None
    survival: bool | None = None
