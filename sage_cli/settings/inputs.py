"""`model`, `prompt` and `data`: the policy, the text it reads and writes, and its problems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    field_validator,
    model_validator,
)

from sage_cli.settings.section import COSMETIC, WHERE_SET, Section

ComputeDtype = Literal["auto", "float32", "bfloat16"]
ATTENTIONS = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3")
_HUB_KERNEL = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?(:\w+)?")


def _attention(name: str | None) -> str | None:
    if name is None or name in ATTENTIONS or _HUB_KERNEL.fullmatch(name):
        return name
    raise ValueError(
        f"'{name}' is neither an attention implementation of Transformers nor a Hub "
        f"kernel (ORG/KERNEL); known: {', '.join(ATTENTIONS)}"
    )


Attention = Annotated[str | None, AfterValidator(_attention)]

PAPER_SYSTEM_PROMPT = (
    "You are given a problem. Think about the problem and provide your working out. "
    "Place it between <start_working_out> and <end_working_out>. "
    "Then, provide your solution between <SOLUTION> and </SOLUTION>."
)
"""Appendix E.4 of the paper, used in SFT, RL and evaluation alike."""

QUESTION = "{question}"


class LoraSection(Section):
    """Low-rank adapters on attention and MLP projections; the authors scale by alpha = 2 r."""

    rank: int = Field(8, ge=1)
    """Rank r of the adapters: the width that their two factors have."""
    alpha: int = Field(16, ge=1)
    """Scale of the adapters: the product of the two factors is multiplied by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before the adapter during SFT. RL always trains without dropout."""
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )
    """Names of the linear layers that get an adapter."""


class PretrainedModel(Section):
    """A published model: its name on the Hub, or a folder in the Hub's format."""

    kind: Literal["pretrained"] = "pretrained"
    """Kind of model: `pretrained` is a published one, `scratch` has random weights."""
    path: str = "Qwen/Qwen2.5-Math-7B"
    """Model that is loaded: its name on the Hub (for example `Qwen/Qwen2.5-Math-7B`), or a folder
    with config.json and *.safetensors."""
    revision: str | None = None
    """Branch, tag or commit to load from the Hub; null means the main branch."""
    trust_remote_code: bool = False
    """Whether to run Python code that comes with the model. A stored configuration cannot turn this
    on."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type that the weights have. `auto` means float32 if all weights are trained, and otherwise
    the stored type."""
    compute_dtype: ComputeDtype = "auto"
    """Type in which matrices are multiplied. `auto` means bfloat16 on GPUs that support it, and
    float32 elsewhere."""
    tuning: Literal["lora", "full"] = "lora"
    """Which weights are trained: `lora` trains low-rank adapters, `full` trains all weights."""
    lora: LoraSection = LoraSection()
    attention: Attention = Field(None, json_schema_extra=WHERE_SET)
    """Attention implementation in training: `eager`, `sdpa`, `flex_attention`, `flash_attention_2`,
    `flash_attention_3`, or a Hub kernel ORG/KERNEL. null leaves the choice to Transformers."""
    kernels: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether to replace layers by kernels from the Hub in training, for example Liger's (this is
    Transformers' `use_kernels`)."""
    allow_lost_updates: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether to train all weights even in a type that is too coarse for small updates, which are
    then lost."""


class ScratchModel(Section):
    """A Qwen2-architecture model with random weights, small enough to train on a laptop."""

    kind: Literal["scratch"]
    """Kind of model: `pretrained` is a published one, `scratch` has random weights."""
    tokenizer: Literal["characters", "bpe"] = "characters"
    """Kind of tokenizer: `characters` has one token per printable character, `bpe` learns its
    tokens from the demonstrations."""
    vocabulary: int = Field(1500, ge=64)
    """Size of the BPE vocabulary. A character tokenizer ignores it."""
    hidden: int = Field(96, ge=8)
    """Hidden size: the width that the residual stream has."""
    layers: int = Field(3, ge=1)
    """Number of transformer blocks that the model has."""
    heads: int = Field(4, ge=1)
    """Number of attention heads that each block has."""
    feed_forward: int = Field(288, ge=8)
    """Width that the MLP of each block has."""
    max_positions: int = Field(512, ge=16)
    """Length of the longest sequence that the model can read, in tokens."""
    tie_embeddings: bool = True
    """Whether the embedding and the output layer have the same weights."""
    seed: int = 0
    """Seed with which the random initial weights are drawn."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type that the weights have."""
    compute_dtype: ComputeDtype = "auto"
    """Type in which matrices are multiplied. `auto` means bfloat16 on GPUs that support it, and
    float32 elsewhere."""
    tuning: Literal["lora", "full"] = "full"
    """Which weights RL trains: `lora` trains low-rank adapters, `full` trains all weights."""
    lora: LoraSection = LoraSection()
    attention: Attention = Field(None, json_schema_extra=WHERE_SET)
    """Attention implementation in training: `eager`, `sdpa`, `flex_attention`, `flash_attention_2`
    or `flash_attention_3`. null leaves the choice to Transformers."""
    allow_lost_updates: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether to train all weights even in a type that is too coarse for small updates, which are
    then lost."""


def kernel_arguments(model: PretrainedModel | ScratchModel) -> dict[str, Any]:
    """Arguments of Transformers' loading that choose kernels; empty where nothing is chosen."""
    chosen = {} if model.attention is None else {"attn_implementation": model.attention}
    return chosen | ({"use_kernels": True} if getattr(model, "kernels", False) else {})


def trained_dtype(model: PretrainedModel | ScratchModel) -> str:
    """Return the type in which weights are loaded to be trained; `auto` is the stored one."""
    return "float32" if model.dtype == "auto" and model.tuning == "full" else model.dtype


def sampled_dtype(model: PretrainedModel | ScratchModel) -> str:
    """Return the type in which a trained model is sampled from: that of its products."""
    return trained_dtype(model) if model.compute_dtype == "auto" else model.compute_dtype


def _kind_by_default(value: Any) -> Any:
    return {"kind": "pretrained", **value} if isinstance(value, dict) else value


ModelSection = Annotated[
    PretrainedModel | ScratchModel, Field(discriminator="kind"), BeforeValidator(_kind_by_default)
]


class PromptSection(Section):
    """The text around a question and its answer. Every checkpoint records a hash of it.

    `format` chooses the layout: `paper` is the Unsloth template that the authors used (system
    prompt, end-of-sequence token, question, opening reasoning tag), `chat` is the tokenizer's
    own chat template, and `plain` is the question alone. `answer` says where the final answer
    is: between the answer tags, or in the last \\boxed{}.
    """

    format: Literal["paper", "chat", "plain"] = "paper"
    """Layout of the prompt. `paper` is the authors': system prompt, end-of-sequence token,
    question, opening reasoning tag. `chat` uses the tokenizer's chat template, and `plain` is
    the question alone."""
    system: str | None = PAPER_SYSTEM_PROMPT
    """Text of the system prompt; null or `off` means none."""
    user: str = QUESTION
    """Text of the user's turn, in which {question} is replaced by the problem's text."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further arguments that the tokenizer's chat template gets, for example {enable_thinking:
    false}."""
    reasoning_open: str = "<start_working_out>"
    """Tag that opens the reasoning."""
    reasoning_close: str = "<end_working_out>"
    """Tag that closes the reasoning."""
    answer: Literal["tags", "boxed"] = "tags"
    """Form of the final answer: `tags` puts it between the answer tags, `boxed` into the last
    \\boxed{}."""
    answer_open: str = Field("<SOLUTION>", min_length=1)
    """Tag that opens the answer."""
    answer_close: str = Field("</SOLUTION>", min_length=1)
    """Tag that closes the answer. Sampling can stop there."""

    @property
    def tags(self) -> tuple[str, str, str, str]:
        """The tags around working-out and answer."""
        return self.reasoning_open, self.reasoning_close, self.answer_open, self.answer_close

    @field_validator("system", mode="before")
    @classmethod
    def _off_is_none(cls, system: Any) -> Any:
        return None if system in (False, "off") else system  # False: YAML's own `off`

    @field_validator("user")
    @classmethod
    def _asks(cls, user: str) -> str:
        if QUESTION not in user:
            raise ValueError(f"must contain {QUESTION}, which is replaced by the problem's text")
        return user

    @model_validator(mode="after")
    def _chat_arguments_have_a_reader(self) -> PromptSection:
        if self.chat_template_kwargs and self.format != "chat":
            raise ValueError(
                f"chat_template_kwargs are for a chat template; format '{self.format}' reads none"
            )
        ours = {"tokenize", "add_generation_prompt"} & self.chat_template_kwargs.keys()
        if ours:
            raise ValueError(f"chat_template_kwargs cannot contain {', '.join(sorted(ours))}")
        return self


class PhaseSection(Section):
    """A stretch of generated demonstrations: its share of the whole and what it is made of."""

    share: float = Field(gt=0, le=1)
    """Share of all demonstrations that this stretch has."""
    mix: dict[Literal["S", "R", "D"], NonNegativeFloat]
    """Weight of each strategy in the mix. The weights need not add up to 1."""
    loss: Literal["completion", "text"] = "completion"
    """Tokens that the loss covers: `completion` for those of the completion, `text` for prompt and
    completion."""


class ArithmeticSection(Section):
    """Two-digit multiplication with several strategies: S splits b, R swaps and splits a, D guesses."""  # noqa: E501

    low: int = Field(11, ge=1)
    """Smallest factor that a product may have."""
    high: int = Field(99, ge=1, le=999)
    """Largest factor that a product may have."""
    familiar_share: float = Field(0.6, gt=0, le=1)
    """Share of the numbers from which demonstrations are made."""
    unfamiliar_probability: float = Field(0.02, ge=0, le=1)
    """Probability that a factor of a demonstration is one of the other numbers."""
    held_out: int = Field(200, ge=1)
    """Number of test problems that are held out."""
    validation: int = Field(100, ge=1)
    """Number of validation problems that are held out."""
    seed: int = 0
    """Seed with which the problems are generated."""
    phases: tuple[PhaseSection, ...] = (
        PhaseSection(share=0.6, mix={"S": 0.45, "R": 0.40, "D": 0.15}),
        PhaseSection(share=0.4, mix={"S": 0.62, "R": 0.08, "D": 0.30}),
    )
    """Stretches of demonstrations, in the order in which SFT reads them."""

    @model_validator(mode="after")
    def _ranges(self) -> ArithmeticSection:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if not self.phases or any(not sum(phase.mix.values()) for phase in self.phases):
            raise ValueError("phases: at least one, each with at least one strategy in its mix")
        return self


class KnightsKnavesSection(Section):
    """Knights-and-Knaves puzzles made from a seed."""

    people: tuple[Annotated[int, Field(ge=2, le=12)], ...] = (2, 3, 4, 5, 6, 7, 8)
    """Numbers of people that a puzzle may have."""
    per_size: int = Field(30, ge=1, le=700)
    """Number of puzzles for each number of people. Only 1,396 puzzles about two people exist."""
    seed: int = 0
    """Seed with which the problems are generated."""


class FieldsSection(Section):
    """Columns of a file, or dotted paths in them, for example `reward_model.ground_truth`. The
    usual names of columns are recognised without them."""

    question: str = "question"
    """Column with the question, or a dotted path in it, for example `prompt.0.content`. Of a column
    with chat turns, the user's last turn is asked."""
    gold: str = "gold"
    """Column that has the reference answer (gold)."""
    working: str | None = None
    """Column with the worked solution, which SFT learns. null means that SFT learns the reference
    answer alone."""
    any_of: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether a list of reference answers is accepted, any of which is correct. If false, a list is
    an error."""


class SourceSection(Section):
    """A registered data set by name, or a JSONL, CSV or Parquet file by path."""

    name: str
    """Data set: a name from `sage data list`, or the path of a JSONL, CSV or Parquet file.
    `FILE:dev` selects a tenth of a file's questions, and `FILE:train` the others."""
    split: str | None = None
    """Split of a Hub data set to use instead of the registered one, for example `train` of
    gsm8k."""
    limit: int | None = Field(None, ge=1)
    """Number of rows to read from the beginning; null reads all."""
    fields: FieldsSection = FieldsSection()
    numeric_only: bool = False
    """Whether to keep only rows whose answer is a number."""
    max_prompt_share: float = Field(1.0, gt=0, le=1)
    """Longest row that is kept, as a share of the maximal sequence length."""
    measured: Literal["question", "conversation"] = "question"
    """Text whose length `max_prompt_share` limits: `question` for the question alone,
    `conversation` for prompt and completion as they are trained."""


_RANGE = re.compile(r"(\d*\.?\d+)\.\.(\d*\.?\d+)")
_SOLVED = "solved_by"


class TrainingSourceSection(SourceSection):
    """The source of RL's problems, all of them or those that a model solves so and so often.

    Pass rates are those of the model `solved_by`: of a run of RL its ledger's, of any other model
    those of its stored samples of these problems. Problems without one are left out.
    """

    solved: str | None = None
    """Range of pass rates: only problems within it are kept, ends included, for example
    `0.05..0.95`. null keeps all."""
    solved_by: str | None = None
    """Run or model whose stored pass rates `solved` uses."""

    @property
    def solved_range(self) -> tuple[float, float]:
        """Return the ends of `solved`; 0 and 1 without it."""
        match = _RANGE.fullmatch(self.solved) if self.solved is not None else None
        return (float(match[1]), float(match[2])) if match else (0.0, 1.0)

    @field_validator("solved")
    @classmethod
    def _is_a_range(cls, given: str | None) -> str | None:
        if given is None:
            return None
        ends = _RANGE.fullmatch(given)
        if ends is None or not 0 <= float(ends[1]) <= float(ends[2]) <= 1:
            raise ValueError(
                f"'{given}' is not a range of pass rates between 0 and 1, for example 0.05..0.95"
            )
        return given

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> TrainingSourceSection:
        if self.solved is not None and self.solved_by is None:
            raise ValueError(
                f"solved {self.solved} needs pass rates, but {_SOLVED} is not set (add "
                f"data.rl.{_SOLVED}=RUN)"
            )
        if self.solved_by is not None and self.solved is None:
            raise ValueError(
                f"{_SOLVED} {self.solved_by} has no effect (add "
                "data.rl.solved=0.05..0.95, or leave it out)"
            )
        return self

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, without those of pools where none is chosen."""
        settings = super().determinants()
        if self.solved_by is not None:
            return settings
        return {name: v for name, v in settings.items() if name in SourceSection.model_fields}


_SFT = SourceSection(name="openmathreasoning-mini", numeric_only=True, max_prompt_share=0.5)
_RL = TrainingSourceSection(name="dapo-math-17k", limit=2000)


def _or(default: SourceSection) -> BeforeValidator:
    """Complete the settings of a source that isn't named by those of the default one."""

    def complete(given: Any) -> Any:
        unnamed = isinstance(given, dict) and "name" not in given
        return {**default.model_dump(), **given} if unnamed else given

    return BeforeValidator(complete)


class DataSection(Section):
    """The problems for SFT and RL. They are read from `root` (or $SAGE_DATA), a folder with local
    copies, or from the Hub."""

    root: Path | None = Field(None, json_schema_extra=COSMETIC)
    """Folder with local copies of data sets. null means the folder in $SAGE_DATA, or the Hub if
    that is not set."""
    sft: Annotated[SourceSection, _or(_SFT)] = _SFT
    rl: Annotated[TrainingSourceSection, _or(_RL)] = _RL
    arithmetic: ArithmeticSection = ArithmeticSection()
    knights_knaves: KnightsKnavesSection = KnightsKnavesSection()
    revisions: dict[str, str] = Field(default_factory=dict)
    """Revisions of Hub data sets, by name, that replace the pinned ones: commits, tags or branches.
    A local copy is read as it is."""
