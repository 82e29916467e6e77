"""`model`: the policy's weights, how they are loaded, which of them are trained."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

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
