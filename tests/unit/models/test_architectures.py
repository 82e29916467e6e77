"""Published architectures: which layers get adapters, and what their configurations say."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import of_architecture
from transformers import AutoModelForCausalLM, GenerationConfig

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.config_json import facts_of_folder
from sage_cli.models.folders import require_model
from sage_cli.models.loading import attach_lora, context_of, load_model, outline
from sage_cli.models.policy import named_policy
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.settings.model import LoraSection
from sage_cli.store.run import Runs

TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
GATED = ("gate_proj", "up_proj", "down_proj")


def saved(name, folder, **changes):
    of_architecture(name, TOKENIZER, **changes).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def adapted_names(model):
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    return {name.partition(".lora_")[0].rpartition(".")[2] for name in trained}


@pytest.mark.parametrize(
    ("name", "targets", "adapted"),
    [
        ("qwen2", ATTENTION + GATED, set(ATTENTION + GATED)),
        ("gemma2", ATTENTION + GATED, set(ATTENTION + GATED)),
        ("gemma3-images", ATTENTION + GATED, set(ATTENTION + GATED)),
        ("gemma3-images", ("self_attn.q_proj",), {"q_proj"}),
        ("qwen3-moe", ATTENTION + GATED, {*ATTENTION, "experts", "base_layer"}),
        ("phi3", ("qkv_proj", "o_proj", "gate_up_proj"), {"qkv_proj", "o_proj", "gate_up_proj"}),
        ("gpt2", ("c_attn", "c_fc"), {"c_attn", "c_fc"}),
        ("gpt-oss", ATTENTION, set(ATTENTION)),
    ],
)
def test_adapters_are_on_what_is_named(name, targets, adapted):
    model = attach_lora(of_architecture(name, TOKENIZER), LoraSection(rank=2, targets=targets))
    assert adapted_names(model) == adapted
    ids = torch.arange(8).view(1, -1)
    model(ids, labels=ids).loss.backward()  # what has no gradient stops several processes
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


@pytest.mark.parametrize(
    ("name", "targets", "lacking", "there"),
    [
        ("qwen2", ("q_proj", "atn_proj"), "atn_proj of", "down_proj,gate_proj,k_proj"),
        ("qwen2", ("lm_head",), "lm_head of", "q_proj"),
        ("qwen2-tied", ("q_proj", "embed_tokens"), "embed_tokens of", "q_proj"),
        ("qwen2", ("norm",), "norm of", "q_proj"),
        ("phi3", ATTENTION + GATED, "q_proj, k_proj, v_proj, gate_proj, up_proj of", "qkv_proj"),
        ("gpt2", ATTENTION + GATED, "gate_proj, up_proj, down_proj of", "[c_attn,c_fc,c_proj]"),
        ("gpt-oss", ATTENTION + GATED, "gate_proj, up_proj, down_proj of", "[k_proj,o_proj,"),
        ("gemma3-images", ("q_proj", "fc1"), "fc1 of", "q_proj"),
        ("qwen3-moe", (*ATTENTION, *GATED, "router"), "router of", "q_proj"),
    ],
)
def test_a_target_without_a_layer_is_named(name, targets, lacking, there, tmp_path):
    folder = saved(name, tmp_path / name)
    for model in (load_model(folder), outline(folder)):
        with pytest.raises(ConfigurationError) as caught:
            attach_lora(model, LoraSection(targets=targets))
        assert f"{lacking} model.lora.targets match no layer" in caught.value.cause
        assert there in caught.value.next_step


def test_adapters_that_peft_refuses_are_a_mistake_of_the_settings():
    with pytest.raises(ConfigurationError, match="lora_dropout"):
        attach_lora(of_architecture("qwen3-moe", TOKENIZER), LoraSection(dropout=0.1))


def test_an_adapter_of_others_on_a_vision_tower_is_frozen_there(tmp_path):
    folder = saved("gemma3-images", tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(folder)
    get_peft_model(model, LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "a")
    for policy in (load_model(tmp_path / "a", trainable=True), load_model(folder)):
        trained = [name for name, weight in policy.named_parameters() if weight.requires_grad]
        assert any("language_model" in name for name in trained)
        assert not any("vision" in name or "projector" in name for name in trained)


@pytest.mark.parametrize("name", ["llama", "qwen2-tied"])
def test_token_ids_alone_are_kept_of_generation_settings(name, tmp_path):
    folder = saved(name, tmp_path / "m")
    given = '{"temperature": 0.9, "top_p": 0.6, "eos_token_id": [1, 2], "max_length": 4096}'
    (folder / "generation_config.json").write_text(given)
    model = load_model(folder)
    model.save_pretrained(tmp_path / "again")
    kept = GenerationConfig.from_pretrained(tmp_path / "again")
    assert (kept.eos_token_id, kept.temperature, kept.max_length) == ([1, 2], None, None)


def test_attention_scores_are_capped_as_the_configuration_says(tmp_path):
    model = of_architecture("gemma2", TOKENIZER, std=2.0)  # scores far above the cap
    model.save_pretrained(tmp_path)
    ids = torch.arange(40).view(1, -1)

    def logps(attention):
        kernels = None if attention is None else {"attn_implementation": attention}
        with torch.no_grad():
            return load_model(tmp_path, kernels=kernels).eval()(ids).logits.log_softmax(-1)

    assert load_model(tmp_path).config._attn_implementation == "eager"
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        uncapped = model(ids).logits.log_softmax(-1)
    assert torch.equal(logps(None), logps("eager"))
    assert (logps(None) - uncapped).abs().max() > 0.1
    with pytest.raises(ConfigurationError, match="caps its attention scores"):
        load_model(tmp_path, kernels={"attn_implementation": "sdpa"})


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}


@pytest.mark.parametrize(
    ("name", "changes", "context"),
    [
        ("llama", {}, 256),
        ("gpt2", {}, 256),
        ("gemma3-images", {"max_position_embeddings": 96}, 96),
        ("qwen2", {"rope_parameters": {**YARN, "rope_theta": 1e4}}, 4 * 256),
        (
            "qwen2",
            {"rope_parameters": {**YARN, "rope_theta": 1e4}, "max_position_embeddings": 1024},
            4 * 256,
        ),
    ],
)
def test_the_context_of_a_configuration(name, changes, context):
    assert context_of(of_architecture(name, TOKENIZER, **changes).config) == context


def test_a_model_without_positions_reads_any_length():
    assert context_of(AutoModelForCausalLM.from_config(_bloom()).config) is None


def _bloom():
    from transformers import BloomConfig

    return BloomConfig(vocab_size=101, hidden_size=16, n_layer=1, n_head=2)


def test_facts_are_those_of_the_text_model(tmp_path):
    saved("gemma3-images", tmp_path / "images")
    saved("gemma3", tmp_path / "text")
    assert facts_of_folder(tmp_path / "images") == facts_of_folder(tmp_path / "text")
    assert facts_of_folder(tmp_path / "images")["vocab_size"] == len(TOKENIZER)


@pytest.mark.parametrize(
    ("named", "file"),
    [
        ("model-q4.gguf", "model-q4.gguf"),
        ("folder/model-q4.gguf", "folder/model-q4.gguf"),
        ("folder", "folder/model-q4.gguf"),
        ("org/Model-1B-GGUF", "FILE.gguf"),
    ],
)
def test_a_gguf_file_is_told_how_to_become_a_folder(named, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "model-q4.gguf", tmp_path / "folder" / "model-q4.gguf"):
        path.write_bytes(b"GGUF")
    asked = (lambda: named_policy(named, Runs(tmp_path)), lambda: require_model(named))
    for ask in asked:
        with pytest.raises(DataError, match="GGUF") as refusal:
            ask()
        assert f"sage_cli.models.from_gguf {file} FOLDER" in str(refusal.value.next_step)
