"""The shape of a model: the sizes in its config.json that decide its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.models.config_json import model_config
from sage_cli.settings.model import PretrainedModel, ScratchModel, trained_dtype

AnyModel = PretrainedModel | ScratchModel
CHARACTERS, TAGS_AND_ENDS = 95, 6
"""Printable characters; four tags, end and padding (`sage_cli.models.tokenizer`)."""


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
        """Return the size of LoRA's two matrices a target (Hu et al. 2021, section 4.1)."""
        sides = [sum(self.projections[name]) for name in targets if name in self.projections]
        return self.layers * rank * sum(sides)


_QWEN_7B = Shape(3584, 18944, 28, 28, 4, 128, 152064, tied=False, qkv_bias=True)
PUBLISHED = {
    "Qwen/Qwen2.5-Math-7B": _QWEN_7B,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _QWEN_7B,
    "Qwen/Qwen2.5-3B-Instruct": Shape(2048, 11008, 36, 16, 2, 128, 151936, True, True),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": Shape(1536, 8960, 28, 12, 2, 128, 151936, True, True),
    "Qwen/Qwen3-1.7B-Base": Shape(2048, 6144, 28, 16, 8, 128, 151936, True, False),
    "Qwen/Qwen3-4B-Base": Shape(2560, 9728, 36, 32, 8, 128, 151936, True, False),
    "meta-llama/Llama-3.2-3B-Instruct": Shape(3072, 8192, 28, 24, 8, 128, 128256, True, False),
    "allenai/OLMo-2-0425-1B": Shape(2048, 8192, 16, 16, 16, 128, 100352, False, False),
    "HuggingFaceTB/SmolLM2-135M-Instruct": Shape(576, 1536, 30, 9, 3, 64, 49152, True, False),
}
"""The shipped presets' models, as their config.json on the Hub has them: for where neither the
Hub nor its cache is at hand."""


def shape_of(section: AnyModel) -> Shape | None:
    """Return the shape of the configured model; None where nothing here tells it."""
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
    return shape_in(model_config(section.path, section.revision))


def shape_in(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape that the content of a config.json tells; None for another kind of model."""
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


def adapter_numbers(model: AnyModel, shape: Shape) -> int:
    """Return numbers in the model's LoRA adapter; 0 where all weights are trained."""
    if model.tuning == "full":
        return 0
    return shape.adapter_parameters(model.lora.rank, model.lora.targets)


def number_bytes(model: AnyModel, *, on_gpu: bool = True) -> tuple[int, int]:
    """Return bytes of a weight and of a product, which is bfloat16 by itself on a GPU.

    Stored weights are taken to be of two bytes.
    """
    weights = 4 if trained_dtype(model) == "float32" else 2
    coarse = model.compute_dtype == "bfloat16" or (model.compute_dtype == "auto" and on_gpu)
    return weights, 2 if coarse else weights
