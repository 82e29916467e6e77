"""Every causal family of Transformers as a model of a few thousand random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

FAMILIES = sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))

WIDTH, INNER, LAYERS, HEADS, HEAD, POSITIONS = 32, 48, 2, 4, 8, 128
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embed_dim", "lru_width"), WIDTH),
    **dict.fromkeys(("word_embed_proj_dim", "attention_hidden_size"), WIDTH),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim"), INNER),
    **dict.fromkeys(("ffn_hidden_size",), INNER),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), INNER // 2),
    **dict.fromkeys(("expert_ffn_hidden_size",), INNER // 2),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers",), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), HEADS),
    **dict.fromkeys(("decoder_attention_heads",), HEADS),
    "num_key_value_heads": 2,
    **dict.fromkeys(("head_dim", "rotary_dim", "v_head_dim", "qk_nope_head_dim"), HEAD),
    **dict.fromkeys(("qk_rope_head_dim", "q_head_dim", "kv_lora_rank", "router_dim"), HEAD),
    "q_lora_rank": 2 * HEAD,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), POSITIONS),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts"), 1),
    "first_k_dense_replace": 1,
    "sliding_window": 4,
    "hidden_size_per_layer_input": HEAD,
    "num_kv_shared_layers": 0,
    **dict.fromkeys(("mamba_d_head", "mamba_n_heads", "mamba_d_state", "state_size"), HEAD),
    "mamba_expand": 2,
}
"""Sizes by the names that configurations have for them; a prompt is longer than the window."""
_MIXED = {"layer_types": ["linear_attention", "full_attention"]}
_QWEN = {**_MIXED, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
FURTHER: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "deepseek_v4": {"mlp_layer_types": ["hash_moe", "moe"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": _MIXED,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4},
    "kimi_linear": {**_MIXED, "mlp_layer_types": ["dense", "sparse"], "linear_num_heads": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"), _QWEN),
    "qwen3_next": _QWEN,
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}
"""What a family needs besides the sizes."""
ENCODERS = (
    *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie"),
    *("megatron-bert", "reformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert"),
    *("roformer", "xlm-roberta", "xlm-roberta-xl", "xmod"),
)
"""Families that attend to both sides unless they are told to be decoders."""


def tiny(family: str, tokenizer: Any) -> Any:
    """Return a model of a family whose logits differ clearly from token to token."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(_configuration(family, tokenizer)).float()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim >= 2:
                torch.nn.init.normal_(weight, std=0.3)
            else:
                weight.add_(0.1 * torch.randn_like(weight))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model.eval()


def _configuration(family: str, tokenizer: Any) -> Any:
    """Return the family's configuration with tiny sizes; of one with parts, that of its text."""
    published = AutoConfig.for_model(family).get_text_config(decoder=True)
    known = {*published.to_dict(), *getattr(published, "attribute_map", {})}
    sizes = {name: size for name, size in SIZES.items() if name in known}
    if getattr(published, "sliding_window", None) is None:
        sizes.pop("sliding_window", None)
    ids = {
        "vocab_size": len(tokenizer),
        "vocab_size_per_layer_input": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.eos_token_id,
    }
    ids = {name: number for name, number in ids.items() if name in known}
    if "kv_lora_rank" in known:  # latent attention has as many keys as queries
        sizes["num_key_value_heads"] = HEADS
    decoder = {"is_decoder": True} if family in ENCODERS else {}
    return type(published)(**sizes | ids | decoder | FURTHER.get(family, {}))
