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
        f"'{name}' is no attention of Transformers, nor ORG/KERNEL of the Hub; known: "
        + ", ".join(ATTENTIONS)
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
    """r, the width of the two factors."""
    alpha: int = Field(16, ge=1)
    """Their product is scaled by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout before the adapter, in supervised warm-up alone: RL trains without dropout."""
    targets: tuple[str, ...] = (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip
    """Names of the linear layers that get an adapter."""


class PretrainedModel(Section):
    """A model of the Hub or a folder in its format."""

    kind: Literal["pretrained"] = "pretrained"
    """`pretrained`: a published model; `scratch`: one with random weights."""
    path: str = "Qwen/Qwen2.5-Math-7B"
    """A name of the Hub, as ORG/MODEL, or a folder with config.json and *.safetensors."""
    revision: str | None = None
    """Branch, tag or commit of the Hub; null: its main branch."""
    trust_remote_code: bool = False
    """Run Python code that the model brings; a stored configuration can't say so."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights; `auto` is float32 where all of them are trained, else the stored one."""
    compute_dtype: ComputeDtype = "auto"
    """Type of matrix products; `auto` is bfloat16 on GPUs that have it, float32 elsewhere."""
    tuning: Literal["lora", "full"] = "lora"
    """`lora` trains adapters, `full` all weights."""
    lora: LoraSection = LoraSection()
    attention: Attention = Field(None, json_schema_extra=WHERE_SET)
    """Attention in trainings: `eager`, `sdpa`, `flex_attention`, `flash_attention_2`,
    `flash_attention_3`, or a kernel of the Hub as ORG/KERNEL; null: Transformers' choice."""
    kernels: bool = Field(False, json_schema_extra=WHERE_SET)
    """Train with kernels of the Hub in the place of layers, Liger's among them (Transformers'
    `use_kernels`)."""
    allow_lost_updates: bool = Field(False, json_schema_extra=COSMETIC)
    """Train all weights in a type that is too coarse for small updates."""


class ScratchModel(Section):
    """A Qwen2-architecture model with random weights, small enough to train on a laptop."""

    kind: Literal["scratch"]
    """`pretrained`: a published model; `scratch`: one with random weights."""
    tokenizer: Literal["characters", "bpe"] = "characters"
    """`characters`: a token for each printable character; `bpe`: pieces learnt from the
    demonstrations."""
    vocabulary: int = Field(1500, ge=64)
    """Size of the BPE vocabulary; a character tokenizer has one entry per printable character."""
    hidden: int = Field(96, ge=8)
    """Width of the residual stream."""
    layers: int = Field(3, ge=1)
    """Transformer blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads."""
    feed_forward: int = Field(288, ge=8)
    """Width of the MLP."""
    max_positions: int = Field(512, ge=16)
    """Longest sequence, in tokens."""
    tie_embeddings: bool = True
    """Share the embedding with the output layer."""
    seed: int = 0
    """Of the random weights."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights."""
    compute_dtype: ComputeDtype = "auto"
    """Type of matrix products; `auto` is bfloat16 on GPUs that have it, float32 elsewhere."""
    tuning: Literal["lora", "full"] = "full"
    """What RL trains: `lora` adapters, `full` all weights."""
    lora: LoraSection = LoraSection()
    attention: Attention = Field(None, json_schema_extra=WHERE_SET)
    """Attention in trainings: `eager`, `sdpa`, `flex_attention`, `flash_attention_2` or
    `flash_attention_3`; null: Transformers' choice."""
    allow_lost_updates: bool = Field(False, json_schema_extra=COSMETIC)
    """Train all weights in a type that is too coarse for small updates."""


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
    """The text around a question and an answer; its hash travels with every checkpoint.

    `format` lays out the prompt: `paper` is the Unsloth template the authors used (system prompt,
    end-of-sequence, question, opening reasoning tag); `chat` is the tokenizer's own chat
    template; `plain` is the question and nothing else. `answer` says where the final answer
    stands: between the tags, or in the last \\boxed{}.
    """

    format: Literal["paper", "chat", "plain"] = "paper"
    """`paper`: system prompt, end-of-sequence, question, opening reasoning tag; `chat`: the
    tokenizer's chat template; `plain`: the question alone."""
    system: str | None = PAPER_SYSTEM_PROMPT
    """null or `off`: no system prompt."""
    user: str = QUESTION
    """What is asked, with {question} where the problem's text goes."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What the tokenizer's chat template is given besides the messages, as
    {enable_thinking: false}."""
    reasoning_open: str = "<start_working_out>"
    """Tag before the working-out."""
    reasoning_close: str = "<end_working_out>"
    """Tag after the working-out."""
    answer: Literal["tags", "boxed"] = "tags"
    """Where the final answer stands: between the answer tags, or in the last \\boxed{}."""
    answer_open: str = Field("<SOLUTION>", min_length=1)
    """Tag before the answer."""
    answer_close: str = Field("</SOLUTION>", min_length=1)
    """Tag after the answer, where sampling stops."""

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
            raise ValueError(f"must hold {QUESTION}, where the problem's text goes")
        return user

    @model_validator(mode="after")
    def _chat_arguments_have_a_reader(self) -> PromptSection:
        if self.chat_template_kwargs and self.format != "chat":
            raise ValueError(
                f"chat_template_kwargs are for a chat template; format '{self.format}' reads none"
            )
        ours = {"tokenize", "add_generation_prompt"} & self.chat_template_kwargs.keys()
        if ours:
            raise ValueError(f"chat_template_kwargs can't hold {', '.join(sorted(ours))}")
        return self


class PhaseSection(Section):
    """A stretch of generated demonstrations: its share of the whole and what it is made of."""

    share: float = Field(gt=0, le=1)
    """Share of all demonstrations."""
    mix: dict[Literal["S", "R", "D"], NonNegativeFloat]
    """Weight of each strategy; they need not add up to 1."""
    loss: Literal["completion", "text"] = "completion"
    """What the loss covers: the completion alone, or prompt and completion."""


class ArithmeticSection(Section):
    """Two-digit multiplication with several strategies: S splits b, R swaps and splits a, D guesses."""  # noqa: E501

    low: int = Field(11, ge=1)
    """Smallest factor."""
    high: int = Field(99, ge=1, le=999)
    """Largest factor."""
    familiar_share: float = Field(0.6, gt=0, le=1)
    """Share of the numbers that demonstrations are made of."""
    unfamiliar_probability: float = Field(0.02, ge=0, le=1)
    """Probability that a factor of a demonstration is one of the other numbers."""
    held_out: int = Field(200, ge=1)
    """Test problems."""
    validation: int = Field(100, ge=1)
    """Validation problems."""
    seed: int = 0
    """Of everything that is chosen at random."""
    phases: tuple[PhaseSection, ...] = (
        PhaseSection(share=0.6, mix={"S": 0.45, "R": 0.40, "D": 0.15}),
        PhaseSection(share=0.4, mix={"S": 0.62, "R": 0.08, "D": 0.30}),
    )
    """Stretches of demonstrations, in their order."""

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
    """Numbers of people in a puzzle."""
    per_size: int = Field(30, ge=1, le=700)
    """Puzzles for each number of people; about two there are 1,396 in all."""
    seed: int = 0
    """Of everything that is chosen at random."""


class FieldsSection(Section):
    """Columns of a file, or dotted paths in them, such as `reward_model.ground_truth`; usual names
    are recognised without."""

    question: str = "question"
    """Column of the question, or a path in it, as `prompt.0.content`; a column of chat turns is
    asked by the user's last turn."""
    gold: str = "gold"
    """Column of the right answer."""
    working: str | None = None
    """Column of the worked solution, for SFT; null: SFT learns the gold alone."""
    any_of: bool = Field(False, json_schema_extra=WHERE_SET)
    """Lists of golds are read, and any of a list is right; false: a list is an error."""


class SourceSection(Section):
    """A registered data set by name, or a JSONL, CSV or Parquet file by path."""

    name: str
    """A name of `sage data list`, or the path of a JSONL, CSV or Parquet file; `FILE:dev` is a
    tenth of a file's questions, `FILE:train` the others."""
    split: str | None = None
    """Of a data set of the Hub another split than the declared, as `train` of gsm8k."""
    limit: int | None = Field(None, ge=1)
    """Only the first rows; null: all."""
    fields: FieldsSection = FieldsSection()
    numeric_only: bool = False
    """Keep only rows whose answer is a number."""
    max_prompt_share: float = Field(1.0, gt=0, le=1)
    """Keep only rows that are no longer than this share of the maximal sequence length."""
    measured: Literal["question", "conversation"] = "question"
    """What that length is of: the question alone, or prompt and completion as they are trained."""


_RANGE = re.compile(r"(\d*\.?\d+)\.\.(\d*\.?\d+)")
_SOLVED = "solved_by"


class TrainingSourceSection(SourceSection):
    """The source of RL's problems, all of them or those that a model solves so and so often.

    Pass rates are those of the model `solved_by`: of a run of RL its ledger's, of any other model
    those of its stored samples of these problems. Problems without one are left out.
    """

    solved: str | None = None
    """Keep only problems with a pass rate in this range, ends included, as `.05..0.95`; null:
    any."""
    solved_by: str | None = None
    """The run or model whose pass rates `solved` reads."""

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
            raise ValueError(f"'{given}' is no range of pass rates from 0 to 1, as .05..0.95")
        return given

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> TrainingSourceSection:
        if self.solved is not None and self.solved_by is None:
            raise ValueError(
                f"solved {self.solved} reads pass rates, and {_SOLVED} names no model (add "
                f"data.rl.{_SOLVED}=RUN)"
            )
        if self.solved_by is not None and self.solved is None:
            raise ValueError(
                f"{_SOLVED} {self.solved_by} would do nothing (add data.rl.solved=.05..0.95, or "
                "leave it out)"
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
    """`root` (or SAGE_DATA) is a folder of local copies; without it the Hub is asked."""

    root: Path | None = Field(None, json_schema_extra=COSMETIC)
    """Folder with local copies of data sets; null: what $SAGE_DATA names, else the Hub."""
    sft: Annotated[SourceSection, _or(_SFT)] = _SFT
    rl: Annotated[TrainingSourceSection, _or(_RL)] = _RL
    arithmetic: ArithmeticSection = ArithmeticSection()
    knights_knaves: KnightsKnavesSection = KnightsKnavesSection()
    revisions: dict[str, str] = Field(default_factory=dict)
    """Commits, tags or branches of data sets of the Hub by name, over those that are pinned; a
    local copy is read as it is."""
