"""A model's sizes, from its configuration alone, and how many numbers it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.models.folders import adapter_base, is_adapter, model_files, read_json
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel

CHARACTERS, TAGS_AND_ENDS = 95, 6
"""Printable characters; four tags, end and padding (`sage_cli.models.scratch`)."""


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama and Qwen kind: gated MLP, RMSNorm, grouped key-value heads."""

    hidden: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool
    qkv_bias: bool

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a layer's matrices by name."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.feed_forward),
            "up_proj": (self.hidden, self.feed_forward),
            "down_proj": (self.feed_forward, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Weights of embedding, layers (two norms each) and head."""
        matrices = sum(inner * outer for inner, outer in self.projections.values())
        biases = (self.heads + 2 * self.kv_heads) * self.head_size if self.qkv_bias else 0
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return embeddings + self.layers * (matrices + biases + 2 * self.hidden) + self.hidden

    def adapter_parameters(self, rank: int, targets: Sequence[str]) -> int:
        """LoRA's two matrices beside each target (Hu et al. 2021, section 4.1)."""
        sides = [sum(self.projections[name]) for name in targets if name in self.projections]
        return self.layers * rank * sum(sides)


def _qwen2(
    hidden: int, feed_forward: int, layers: int, heads: int, kv_heads: int, vocabulary: int,
    *, tied: bool,
) -> Shape:  # fmt: skip
    return Shape(
        hidden, feed_forward, layers, heads, kv_heads, hidden // heads, vocabulary, tied, True
    )


PUBLISHED = {
    "Qwen/Qwen2.5-Math-7B": _qwen2(3584, 18944, 28, 28, 4, 152064, tied=False),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _qwen2(3584, 18944, 28, 28, 4, 152064, tied=False),
    "Qwen/Qwen2.5-3B-Instruct": _qwen2(2048, 11008, 36, 16, 2, 151936, tied=True),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": _qwen2(1536, 8960, 28, 12, 2, 151936, tied=True),
}
"""The shipped presets' models, as their config.json on the Hub has them: for where neither the
Hub nor its cache is at hand."""


def shape_of(section: PretrainedModel | ScratchModel) -> Shape | None:
    """The shape of the configured model; None where nothing here tells it."""
    if isinstance(section, ScratchModel):
        characters = section.tokenizer == "characters"
        return Shape(
            section.hidden,
            section.feed_forward,
            section.layers,
            section.heads,
            section.heads,
            section.hidden // section.heads,
            (CHARACTERS if characters else section.vocabulary) + TAGS_AND_ENDS,
            section.tie_embeddings,
            True,
        )
    if section.path in PUBLISHED:
        return PUBLISHED[section.path]
    try:
        return shape_in_files(model_files(section.path, section.revision))
    except DataError:
        return None


def shape_in_files(folder: Path) -> Shape | None:
    """The shape of the model, or of the adapter's base, whose small files are in `folder`."""
    try:
        below = model_files(adapter_base(folder)) if is_adapter(folder) else folder
    except DataError:
        return None
    return shape_in(read_json(below / "config.json"))


def shape_in(config: Mapping[str, Any]) -> Shape | None:
    """The shape that the content of a config.json tells; None for another kind of model."""
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return Shape(
            hidden,
            int(config["intermediate_size"]),
            int(config["num_hidden_layers"]),
            heads,
            int(config.get("num_key_value_heads") or heads),
            int(config.get("head_dim") or hidden // heads),
            int(config["vocab_size"]),
            bool(config.get("tie_word_embeddings", False)),
            bool(config.get("attention_bias", config.get("model_type") == "qwen2")),
        )
    except (KeyError, TypeError, ValueError):
        return None
