"""An exported model says what the policy says, and nothing is written over by mistake."""

import json
import shutil

import pytest
import torch
from peft import LoraConfig, get_peft_model
from random_model import of_architecture, save_scratch
from safetensors.torch import load_file

from sage_cli.errors import StoreError
from sage_cli.models import export as module
from sage_cli.models import loading
from sage_cli.models.export import export
from sage_cli.models.folders import fingerprint
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.tokenizer import character_tokenizer, load_tokenizer
from sage_cli.progress import Silent
from sage_cli.settings.model import LoraSection, ScratchModel
from sage_cli.store.run import SEAL, Runs

SMALL = ScratchModel(kind="scratch", hidden=32, layers=2, heads=2, feed_forward=64, seed=3)
PROMPT = {"format": "plain", "system": None}
SAMPLING = {"temperature": 1.0, "max_tokens": 48, "servers": ["http://elsewhere"]}


def save_adapter(base, folder):
    """An adapter whose B matrices aren't zero, so that it changes what the model says."""
    model = attach_lora(load_model(base), LoraSection(rank=4, alpha=8))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)
    model.save_pretrained(folder)
    load_tokenizer(base).save_pretrained(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs: a base with all its weights, and a LoRA policy with a checkpoint and an end."""
    root = tmp_path_factory.mktemp("runs")
    runs = Runs(root)
    base, policy = runs.at("sft", "base", "1" * 8), runs.at("rl", "lora", "2" * 8)
    with base.recording({"prompt": PROMPT}, kind="sft", template="t0"):
        save_scratch(SMALL, ("<a>",), [], base.model)
    config = {"prompt": PROMPT, "sampling": SAMPLING}
    with policy.recording(config, kind="rl", parent=base.id, template="t1"):
        save_adapter(base.model, policy.model)
        checkpoint = shutil.copytree(base.model, policy.checkpoints / "checkpoint-7")
        (checkpoint / SEAL).write_text("{}")
    return root


def logits(folder):
    with torch.no_grad():
        return load_model(folder).eval()(torch.arange(24).view(2, 12)).logits


def test_the_merged_model_says_what_the_adapter_said_and_where_it_came_from(made, tmp_path):
    exported = export("rl-lora", tmp_path / "out", made, Silent())
    policy, base = made / "rl-lora-22222222" / "model", made / "sft-base-11111111" / "model"
    assert not (tmp_path / "out" / "adapter_config.json").exists()
    assert not any("lora" in name for name in load_file(tmp_path / "out" / "model.safetensors"))
    torch.testing.assert_close(logits(tmp_path / "out"), logits(policy), atol=1e-5, rtol=0)
    assert (logits(policy) - logits(base)).abs().max() > 0.01  # there was something to merge
    assert exported.merged
    assert load_tokenizer(tmp_path / "out")("1+2=<a>") == load_tokenizer(base)("1+2=<a>")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    said = json.loads((tmp_path / "out" / "sage.json").read_text())
    assert (said["run"], said["checkpoint"], said["template"]) == ("rl-lora-22222222", None, "t1")
    assert said["prompt"] == PROMPT
    assert said["sampling"] == {"temperature": 1.0, "max_tokens": 48}
    assert said["fingerprint"] == fingerprint(policy)
    assert said["dtype"] == "float32"
    assert said["versions"]["torch"] == torch.__version__


def test_checkpoints_and_folders_are_exported_as_well(made, tmp_path):
    exported = export("rl-lora@7", tmp_path / "seven", made, Silent())
    base = made / "sft-base-11111111" / "model"
    assert (exported.source, exported.checkpoint, exported.merged) == (
        "rl-lora-22222222@7",
        7,
        False,
    )
    torch.testing.assert_close(logits(tmp_path / "seven"), logits(base), atol=0, rtol=0)
    again = export(str(tmp_path / "seven"), tmp_path / "copy", made, Silent())
    # a copy goes on saying how it is prompted
    assert (again.run, again.template, again.prompt) == (None, "t1", PROMPT)
    assert again.sampling == exported.sampling
    assert again.fingerprint == exported.fingerprint == fingerprint(tmp_path / "copy")


def test_the_type_can_be_chosen(made, tmp_path):
    exported = export("rl-lora", tmp_path / "half", made, Silent(), dtype="bfloat16")
    assert exported.dtype == "bfloat16"
    weights = load_file(tmp_path / "half" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
    near = (logits(tmp_path / "half").float() - logits(made / "rl-lora-22222222" / "model")).abs()
    assert 1e-5 < near.max() < 0.05


def test_a_model_is_replaced_only_with_force(made, tmp_path, told):
    (tmp_path / "out").mkdir()  # an empty folder may be filled
    export("sft-base", tmp_path / "out", made, told)
    base = "sft-base-11111111"
    steps = [f"loading {base}", f"hashing the weights of {base}", f"writing {tmp_path / 'out'}"]
    assert told.done == steps
    before = (tmp_path / "out" / "sage.json").read_text()
    with pytest.raises(StoreError, match="already contains a model") as refusal:
        export("rl-lora", tmp_path / "out", made, Silent())
    assert "--force" in refusal.value.next_step
    assert (tmp_path / "out" / "sage.json").read_text() == before
    (tmp_path / "out" / "leftover.safetensors").write_text("of the model before")
    export("rl-lora", tmp_path / "out", made, Silent(), force=True)
    assert json.loads((tmp_path / "out" / "sage.json").read_text())["run"] == "rl-lora-22222222"
    assert not (tmp_path / "out" / "leftover.safetensors").exists()


@pytest.mark.parametrize("force", [False, True])
def test_nothing_but_a_model_is_ever_replaced(made, tmp_path, force):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    (tmp_path / "file").write_text("x")
    run = made / "sft-base-11111111"
    for place, said in (
        (tmp_path / "letters", "does not contain a model"),
        (tmp_path / "file", "is a file"),
        (run, "belongs to a run"),
        (run / "model", "belongs to a run"),
        (made, "contain one another"),
        (made / "rl-lora-22222222" / "model", "contain one another"),
        (made / "rl-lora-22222222" / "model" / "merged", "contain one another"),
    ):
        with pytest.raises(StoreError, match=said):
            export("rl-lora", place, made, Silent(), force=force)
    assert (tmp_path / "letters" / "dear.txt").read_text() == "dear"
    assert logits(run / "model") is not None


def test_a_failure_leaves_the_folder_as_it_was(made, tmp_path, monkeypatch):
    export("sft-base", tmp_path / "out", made, Silent())
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(OSError, match="disk full"):
        export("rl-lora", tmp_path / "out", made, Silent(), force=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


TOKENIZER = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
QV = ["q_proj", "v_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def adapted(name, folder, *, tokens=0, **settings):
    """Save a model and an adapter of any kind on it; `tokens` more than the base has rows."""
    model = of_architecture(name, TOKENIZER)
    model.save_pretrained(folder / "base")
    if tokens:
        model.resize_token_embeddings(len(TOKENIZER) + tokens)
    model.name_or_path = str(folder / "base")
    model = get_peft_model(model, LoraConfig(r=2, task_type="CAUSAL_LM", **settings))
    torch.manual_seed(0)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if weight.requires_grad and "magnitude" not in key:
                weight.add_(torch.randn_like(weight), alpha=0.2)
    model.save_pretrained(folder / "adapter")
    TOKENIZER.save_pretrained(folder / "adapter")
    return folder / "adapter"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qwen2", {"target_modules": QV}),
        ("qwen2", {"target_modules": QV, "modules_to_save": ["embed_tokens", "lm_head"]}),
        ("qwen2", {"target_modules": QV, "use_dora": True}),
        ("qwen2-tied", {"target_modules": ["embed_tokens"]}),
        ("qwen2-tied", {"target_modules": ["lm_head", *QV]}),
        ("qwen2-tied", {"target_modules": QV, "modules_to_save": ["embed_tokens"]}),
        ("qwen2-tied", {"target_modules": QV, "modules_to_save": ["lm_head"]}),
        ("qwen2-tied", {"target_modules": QV, "modules_to_save": ["embed_tokens", "lm_head"]}),
        ("qwen2-tied", {"target_modules": QV, "trainable_token_indices": [3, 4]}),
        ("qwen3-moe", {"target_modules": QV, "target_parameters": EXPERTS}),
        ("gpt-oss", {"target_modules": QV}),
        ("gpt2", {"target_modules": ["c_attn", "wte"]}),
        ("phi3", {"target_modules": ["qkv_proj"]}),
        ("gemma2", {"target_modules": QV}),
        ("gemma3-images", {"target_modules": QV}),
        ("llama", {"tokens": 4, "target_modules": QV, "modules_to_save": ["lm_head"]}),
        ("qwen2-tied", {"tokens": 4, "target_modules": QV}),
    ],
)
def test_every_kind_of_adapter_is_merged_rightly(name, settings, tmp_path):
    policy = adapted(name, tmp_path, **settings)
    export(str(policy), tmp_path / "out", tmp_path, Silent())
    before, after, base = map(logits, (policy, tmp_path / "out", tmp_path / "base"))
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)
    assert (before[..., : base.shape[-1]] - base).abs().max() > 0.01


def test_a_merge_that_makes_another_model_writes_nothing(tmp_path, monkeypatch):
    policy = adapted("qwen2-tied", tmp_path, target_modules=["embed_tokens"])
    monkeypatch.setattr(loading, "merge_adapter", lambda model: model.merge_and_unload())
    with pytest.raises(StoreError, match="standard deviations, while rounding to") as refusal:
        export(str(policy), tmp_path / "out", tmp_path, Silent())
    assert "--dtype float32" in refusal.value.next_step
    assert not (tmp_path / "out").exists()
