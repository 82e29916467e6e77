"""Models with random weights, built in a moment."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase, Qwen2Config


def random_model(
    tokenizer: PreTrainedTokenizerBase,
    architecture: type = Qwen2Config,
    *,
    seed: int = 0,
    std: float | None = 0.3,
    **changes: Any,
) -> Any:
    """A model for `tokenizer`; with weights of deviation `std` its greedy answers differ.

    `std=None` leaves the weights as the architecture draws them.
    """
    settings: dict[str, Any] = {
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
