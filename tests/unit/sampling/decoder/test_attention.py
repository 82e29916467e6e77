"""Architectures: the loop's greedy text is `generate`'s own, or the model is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    BambaConfig,
    FalconH1Config,
    Gemma2Config,
    GptOssConfig,
    JambaConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    NemotronConfig,
    Phi3Config,
    PhimoeConfig,
    PreTrainedTokenizerBase,
    Qwen2MoeConfig,
    StableLmConfig,
)

from sage_cli.errors import SamplingError
from sage_cli.sampling.decoder.transformers_sampler import TransformersSampler
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

PROMPTS = ("1+1=", "12*34=?", "x*y<SOLUTION>z")
GREEDY = SamplingParameters(0.0, 1.0, 0, 0.0, 36, None)
REACH = 7 + 36 - 1
"""Tokens that are read of the longest text: prompts have 4, 7 and 5, and the last token drawn is
never read."""

EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4, "num_experts": 4}


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


def longrope(original: int) -> dict[str, Any]:
    """Short factors up to `original` tokens, long ones beyond; 8 per head, half of them rotate."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4}
    # Phi-3 takes the setting beside RoPE's, which it would put above one among them
    return {"original_max_position_embeddings": original, **rope("longrope", **factors)}


PLAIN: dict[str, tuple[type, dict[str, Any]]] = {
    "StableLM": (StableLmConfig, {}),
    "Nemotron": (NemotronConfig, {"head_dim": 8}),
    "Mistral, a window that isn't reached": (MistralConfig, {"sliding_window": REACH}),
    "Phi-3, a window that isn't reached": (Phi3Config, {"sliding_window": REACH}),
    "Phi-3, long RoPE that isn't reached": (Phi3Config, longrope(REACH)),
    "dynamic RoPE that isn't reached": (
        LlamaConfig, {"max_position_embeddings": REACH, **rope("dynamic", factor=4.0)},
    ),
    "Llama 4, a chunk that isn't reached": (
        Llama4TextConfig, {**EXPERTS, "head_dim": 8, "attention_chunk_size": REACH},
    ),
}  # fmt: skip

REFUSED: dict[str, tuple[type, dict[str, Any], str]] = {
    "Mistral": (MistralConfig, {"sliding_window": REACH - 1}, f"{REACH - 1} tokens.*have {REACH}"),
    "Phi-3": (Phi3Config, {"sliding_window": 4}, "4 tokens"),
    "Phi-MoE": (PhimoeConfig, {**EXPERTS, "sliding_window": 4}, "4 tokens"),
    "Qwen2-MoE": (
        Qwen2MoeConfig,
        {**EXPERTS, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0,
         "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
        "4 tokens",
    ),
    "Llama 4": (
        Llama4TextConfig, {**EXPERTS, "head_dim": 8, "attention_chunk_size": 8}, "chunks of 8",
    ),
    "dynamic RoPE": (
        LlamaConfig, {"max_position_embeddings": REACH - 1, **rope("dynamic", factor=4.0)},
        f"'dynamic' RoPE, which changes beyond {REACH - 1} tokens",
    ),
    "long RoPE": (Phi3Config, longrope(REACH - 1), f"'longrope' RoPE.* beyond {REACH - 1} tokens"),
    "Jamba": (JambaConfig, {**EXPERTS, "use_mamba_kernels": False}, "recurrent state"),
    "Bamba": (
        BambaConfig, {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1}, "recurrent state"
    ),
    "Falcon-H1": (
        FalconH1Config,
        {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_n_groups": 1},
        "recurrent state",
    ),
    "Gemma 2": (Gemma2Config, {"head_dim": 8}, "softcap"),
    "gpt-oss": (GptOssConfig, {**EXPERTS, "head_dim": 8, "layer_types": ["full_attention"] * 2},
                "s_aux"),
}  # fmt: skip


def greedy_by_the_loop(model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    sampler = TransformersSampler(model, tokenizer, GREEDY, batch_rows=8)
    wanted = [SampleRequest(prompt, prompt, (0,)) for prompt in PROMPTS]
    return {row.problem_id: row.text for row in sampler.sample(wanted)}


def greedy_by_generate(model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    texts = {}
    for prompt in PROMPTS:
        ids_1T = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        output_1T = model.generate(
            input_ids=ids_1T,
            attention_mask=torch.ones_like(ids_1T),
            do_sample=False,
            max_new_tokens=GREEDY.max_tokens,
        )
        new_T = output_1T[0, ids_1T.shape[1] :]
        texts[prompt] = tokenizer.decode(new_T, skip_special_tokens=True)
    return texts


@pytest.mark.parametrize("name", PLAIN)
def test_greedy_text_equals_generate(
    make_model: Callable[..., Any], tokenizer: PreTrainedTokenizerBase, name: str
) -> None:
    architecture, changes = PLAIN[name]
    model = make_model(architecture, **changes)
    assert greedy_by_the_loop(model, tokenizer) == greedy_by_generate(model, tokenizer)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_loop_would_compute_wrongly_is_refused_by_name(
    make_model: Callable[..., Any], tokenizer: PreTrainedTokenizerBase, name: str
) -> None:
    architecture, changes, said = REFUSED[name]
    model = make_model(architecture, **changes)
    before = model.config._attn_implementation
    with pytest.raises(SamplingError, match=f"{type(model).__name__}: it .*{said}") as refusal:
        greedy_by_the_loop(model, tokenizer)
    assert "sampling.backend=vllm" in str(refusal.value.next_step)
    assert model.config._attn_implementation == before


def test_an_adapter_hides_nothing_of_its_base(
    make_model: Callable[..., Any], tokenizer: PreTrainedTokenizerBase
) -> None:
    adapter = LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    windowed = get_peft_model(make_model(MistralConfig, sliding_window=4), adapter)
    with pytest.raises(SamplingError, match="MistralForCausalLM: it attends in windows"):
        greedy_by_the_loop(windowed, tokenizer)
