"""Models with random weights, built in a moment."""

from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, Qwen2Config

from sage_cli.models.loading import build_scratch
from sage_cli.models.tokenizer import build_tokenizer


def random_model(tokenizer, architecture=Qwen2Config, *, seed=0, std=0.3, **changes):
    """A model for `tokenizer`; with weights of deviation `std` its greedy answers differ.

    `std=None` leaves the weights as the architecture draws them.
    """
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(architecture(**settings | changes))
    for weight in model.parameters() if std is not None else ():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=std)
    return model.eval()


_IMAGES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
_IMAGES |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": False}),
    "qwen2-tied": ("Qwen2Config", {"tie_word_embeddings": True}),
    "llama": ("LlamaConfig", {}),
    "gpt2": ("GPT2Config", {}),
    "phi3": ("Phi3Config", {}),
    "gemma2": ("Gemma2Config", {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "qwen3-moe": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "gpt-oss": (
        "GptOssConfig",
        {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": None},
    ),
}
"""Published architectures by name: configuration class and what it needs besides the sizes."""


def of_architecture(name, tokenizer, **changes):
    """A random model of a published architecture; `gemma3-images` also reads images."""
    if name != "gemma3-images":
        settings, further = ARCHITECTURES[name]
        return random_model(tokenizer, getattr(transformers, settings), **further, **changes)
    text = of_architecture("gemma3", tokenizer, **changes).config.to_dict()
    config = transformers.Gemma3Config(
        text_config=text, vision_config=_IMAGES, mm_tokens_per_image=4
    )
    config.eos_token_id, config.bos_token_id = tokenizer.eos_token_id, None
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def save_scratch(section, tags, texts, folder):
    """Write tokenizer and freshly initialised weights to `folder` (safetensors)."""
    tokenizer = build_tokenizer(section, tags, texts)
    build_scratch(section, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
