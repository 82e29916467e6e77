"""`model` and `prompt`: which policy, how it is tuned, and the text it reads and writes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

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
