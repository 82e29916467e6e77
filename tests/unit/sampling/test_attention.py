"""Memory that runs out: rows are halved, samples stay what they are."""

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
    Qwen2MoeConfig,
    StableLmConfig,
)

from sage_cli.errors import SamplingError
from sage_cli.sampling import decoder, graphs, resources
from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.cohort import Cohort
from sage_cli.sampling.decoder import TransformersSampler
from sage_cli.sampling.graphs import FixedMemory
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.sampling.token_memory import ranks

SAMPLED = SamplingParameters(1.0, 1.0, 0, 0.0, 16, "</SOLUTION>")
REQUESTS = [SampleRequest(f"p{i}", f"{i}+{i + 1}=", tuple(range(12)), 5) for i in range(4)]
ROWS = 16


def cuda_error():
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def cpu_error():
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)"
    )


def draw(model, tokenizer, graphs=False):
    """Every sample once, or this fails."""
    drawn = list(TransformersSampler(model, tokenizer, SAMPLED, ROWS, graphs).sample(REQUESTS))
    keyed = {(one.problem_id, one.index): one for one in drawn}
    assert len(keyed) == len(drawn) == 48
    return keyed


@pytest.fixture
def whole(model, tokenizer):
    """The samples as they are while there is memory."""
    return draw(model, tokenizer)


def failing(method, error, *calls):
    """`method`, which fails with `error` at the numbered calls."""
    count = 0

    def tried(*args, **kwargs):
        nonlocal count
        count += 1
        if count in calls:
            raise error
        return method(*args, **kwargs)

    return tried


@pytest.mark.parametrize(
    ("error", "graphs"), [(cuda_error(), False), (cpu_error(), False), (cuda_error(), True)]
)
def test_rows_are_halved_and_nothing_is_lost(
    error, graphs, model, tokenizer, whole, monkeypatch, caplog
):
    # once while prompts are read, twice in the midst of drawing
    monkeypatch.setattr(MemoryModel, "logits", failing(MemoryModel.logits, error, 1, 7, 13))
    with caplog.at_level(logging.WARNING):
        assert draw(model, tokenizer, graphs) == whole
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" with ")[1] for line in said] == [
        f"{rows} rows at once from here on" for rows in (8, 4, 2)
    ]


def test_what_a_step_had_drawn_when_memory_ran_out_is_drawn_again(
    model, tokenizer, whole, monkeypatch
):
    # some cohorts have given up their finished samples by then
    monkeypatch.setattr(Cohort, "_settle", failing(Cohort._settle, cuda_error(), 6, 30))
    assert draw(model, tokenizer) == whole


def test_a_recording_that_fails_leaves_torch_as_it_was(model, tokenizer, whole, monkeypatch):
    """Torch 2.13 ends neither the use of its stream nor that of its pool."""
    cuda, internal, begin = MagicMock(), MagicMock(), FixedMemory.begin
    errors = [cuda_error(), *6 * [RuntimeError("operation not permitted")]]
    cuda.graph.return_value.__exit__.side_effect = errors
    faked = SimpleNamespace(**vars(torch) | {"cuda": cuda, "_C": internal})

    def beginning(self, prompts):
        self._pool = "pool"
        begin(self, prompts)

    monkeypatch.setattr(FixedMemory, "begin", beginning)
    monkeypatch.setattr(graphs, "torch", faked)
    assert draw(model, tokenizer, graphs=True) == whole
    stream = cuda.current_stream.return_value
    # one in the first cohort of 16, which is halved, and one in each of six
    assert cuda.set_stream.mock_calls == 7 * [call(stream)]
    ended = 7 * [call(stream.device_index, "pool")]
    assert internal._cuda_endAllocateToPool.mock_calls == ended
    assert internal._cuda_releasePool.mock_calls == ended


def test_another_error_is_not_taken_for_it(model, tokenizer, monkeypatch):
    wrong = RuntimeError("CUDA error: device-side assert triggered")
    monkeypatch.setattr(MemoryModel, "logits", failing(MemoryModel.logits, wrong, 3))
    with pytest.raises(RuntimeError, match="device-side assert"):
        draw(model, tokenizer)


def test_memory_without_room_for_one_completion_is_said(model, tokenizer, monkeypatch):
    always = failing(MemoryModel.logits, cuda_error(), *range(1, 99))
    monkeypatch.setattr(MemoryModel, "logits", always)
    with pytest.raises(SamplingError, match="one completion at a time") as no:
        draw(model, tokenizer)
    assert "tensor_parallel_size" in str(no.value.next_step)


def test_rows_are_as_many_as_free_memory_holds(make_model, monkeypatch):
    model = make_model()
    vocabulary = model.config.vocab_size
    # keys and values of 10 tokens: 2 x 2 layers x 4 heads x 8 numbers of four bytes, and a layer's
    # once more; logits of 4 + 4 + 4 + 8 bytes
    row = 10 * 2 * 2 * 4 * 8 * 4 * 3 // 2 + vocabulary * 20
    monkeypatch.setattr(resources, "free_bytes", lambda device: 7 * row)
    assert resources.fitting_rows(model, 4, 6) == 6  # nine tenths of seven
    with torch.autocast("cpu", torch.bfloat16):  # whose attention keeps float32
        assert resources.fitting_rows(make_model().to(torch.bfloat16), 4, 6) == 6
    monkeypatch.setattr(resources, "free_bytes", lambda device: 3)
    assert resources.fitting_rows(model, 4, 6) == 1
    monkeypatch.setattr(resources, "free_bytes", lambda device: None)
    assert resources.fitting_rows(model, 4, 6) is None


def test_a_small_memory_is_used_from_the_start(model, tokenizer, whole, monkeypatch):
    seen = []

    class Watched(decoder._Flight):
        def clear(self, rows):
            seen.append(rows)
            super().clear(rows)

    monkeypatch.setattr(decoder, "_Flight", Watched)
    monkeypatch.setattr(decoder, "fitting_rows", lambda *_: 3)
    assert draw(model, tokenizer) == whole
    assert seen == [3]


def test_this_machine_tells_what_is_free():
    free = resources.free_bytes(torch.device("cpu"))
    assert free is None or free > 2**20


@given(st.lists(st.integers(0, 5), max_size=40))
def test_members_fill_their_group_without_gaps(groups):
    groups_B = np.array(groups, dtype=np.int64)
    ranks_B, largest = ranks(groups_B, groups=6)
    for group in range(6):
        size = groups.count(group)
        assert ranks_B[groups_B == group].tolist() == list(range(size))
    assert largest == max(map(groups.count, range(6))) or not groups


PROMPTS = ("1+1=", "12*34=?", "x*y<SOLUTION>z")
GREEDY = SamplingParameters(0.0, 1.0, 0, 0.0, 36, None)
REACH = 7 + 36 - 1
"""Tokens that are read of the longest text: prompts have 4, 7 and 5, and the last token drawn is
never read."""

EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4, "num_experts": 4}


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


def longrope(original):
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
        LlamaConfig,
        {"max_position_embeddings": REACH, **rope("dynamic", factor=4.0)},
    ),
    "Llama 4, a chunk that isn't reached": (
        Llama4TextConfig,
        {**EXPERTS, "head_dim": 8, "attention_chunk_size": REACH},
    ),
}

REFUSED: dict[str, tuple[type, dict[str, Any], str]] = {
    "Mistral": (MistralConfig, {"sliding_window": REACH - 1}, f"{REACH - 1} tokens.*have {REACH}"),
    "Phi-3": (Phi3Config, {"sliding_window": 4}, "4 tokens"),
    "Phi-MoE": (PhimoeConfig, {**EXPERTS, "sliding_window": 4}, "4 tokens"),
    "Qwen2-MoE": (
        Qwen2MoeConfig,
        {
            **EXPERTS,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 0,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
        "4 tokens",
    ),
    "Llama 4": (
        Llama4TextConfig,
        {**EXPERTS, "head_dim": 8, "attention_chunk_size": 8},
        "chunks of 8",
    ),
    "dynamic RoPE": (
        LlamaConfig,
        {"max_position_embeddings": REACH - 1, **rope("dynamic", factor=4.0)},
        f"'dynamic' RoPE, which changes beyond {REACH - 1} tokens",
    ),
    "long RoPE": (Phi3Config, longrope(REACH - 1), f"'longrope' RoPE.* beyond {REACH - 1} tokens"),
    "Jamba": (JambaConfig, {**EXPERTS, "use_mamba_kernels": False}, "recurrent state"),
    "Bamba": (
        BambaConfig,
        {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1},
        "recurrent state",
    ),
    "Falcon-H1": (
        FalconH1Config,
        {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_n_groups": 1},
        "recurrent state",
    ),
    "Gemma 2": (Gemma2Config, {"head_dim": 8}, "softcap"),
    "gpt-oss": (
        GptOssConfig,
        {**EXPERTS, "head_dim": 8, "layer_types": ["full_attention"] * 2},
        "s_aux",
    ),
}


def greedy_by_the_loop(model, tokenizer):
    sampler = TransformersSampler(model, tokenizer, GREEDY, batch_rows=8)
    wanted = [SampleRequest(prompt, prompt, (0,)) for prompt in PROMPTS]
    return {row.problem_id: row.text for row in sampler.sample(wanted)}


@pytest.mark.parametrize("name", PLAIN)
def test_greedy_text_equals_generate(make_model, tokenizer, generated, name):
    architecture, changes = PLAIN[name]
    model = make_model(architecture, **changes)
    expected = {prompt: generated(model, prompt, GREEDY.max_tokens)[0] for prompt in PROMPTS}
    assert greedy_by_the_loop(model, tokenizer) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_loop_would_compute_wrongly_is_refused_by_name(make_model, tokenizer, name):
    architecture, changes, said = REFUSED[name]
    model = make_model(architecture, **changes)
    before = model.config._attn_implementation
    with pytest.raises(SamplingError, match=f"{type(model).__name__}: it .*{said}") as refusal:
        greedy_by_the_loop(model, tokenizer)
    assert "sampling.backend=vllm" in str(refusal.value.next_step)
    assert model.config._attn_implementation == before


def test_an_adapter_hides_nothing_of_its_base(make_model, tokenizer):
    adapter = LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    windowed = get_peft_model(make_model(MistralConfig, sliding_window=4), adapter)
    with pytest.raises(SamplingError, match="MistralForCausalLM: it attends in windows"):
        greedy_by_the_loop(windowed, tokenizer)
