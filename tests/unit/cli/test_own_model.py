"""RL from a model of one's own: what is given is trained, and nothing before it."""

import json

import pytest
from random_model import of_architecture, random_model
from transformers import LlamaConfig

from sage_cli.models.tokenizer import character_tokenizer


@pytest.fixture
def own_model(tmp_path):
    """A Llama with a tokenizer of its own, and a file of problems, in the working folder."""
    folder = tmp_path / "model"
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    random_model(tokenizer, LlamaConfig, max_position_embeddings=64).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rows = [{"question": "1+1=?", "gold": "2"}, {"question": "12*12=?", "gold": "144"}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_a_model_of_ones_own_starts_rl_as_it_is(sage, own_model, tmp_path):
    words = ("--init", own_model, "--data", tmp_path / "mine.jsonl")
    typed = sage("rl", *words, "--dry-run")
    assert typed.code == 0
    assert "initial policy: SFT" not in typed.words
    assert "problems mine.jsonl" in typed.words.replace(f"{tmp_path}/", "")
    note = "no preset was given, so all other settings are those of the preset tiny (48 new tokens"
    assert note in typed.words
    assert note not in sage("rl", *words, "--preset", "tiny", "--dry-run").words
    checked = sage("doctor", *words, "--set", "evaluation.limit=3")
    assert "the model's context has 64" in checked.words
    assert "SFT data" not in checked.words
    assert note in checked.words


def test_what_is_typed_of_the_model_and_what_sage_exported_hold(sage, answer, own_model):
    stages = answer("rl", "--init", own_model, "--full", "--dry-run")["stages"]
    assert [stage.get("tuning") for stage in stages] == [None, "full"]
    sage("rl", "--set", f"model.path={own_model}", "--dry-run").refused(
        "add --set model.kind=pretrained"
    )
    unread = ("--set", "model.hidden=64", "--dry-run")
    sage("rl", "--init", own_model, *unread).refused("model.hidden has no effect")
    (own_model / "sage.json").write_text('{"prompt": {"format": "plain"}}')
    for words in (("--dry-run",), ()):  # what sage exported keeps the settings that are chosen
        typed = sage("rl", "--init", own_model, *words)
        typed.refused("is not the model of the configuration")
        assert "no preset was given" not in typed.words


@pytest.mark.parametrize(
    ("name", "targets", "said"),
    [
        ("phi3", None, "up_proj of model.lora.targets match no layer"),
        ("gpt2", None, "the linear layers of its text model: --set 'model.lora.targets=[c_attn,"),
        ("llama", "[q_proj,lm_head]", "lm_head of model.lora.targets match no layer"),
        ("llama", "[q_proj]", None),
        ("gpt2", "[c_attn]", None),
        ("gemma3-images", None, None),
    ],
)
def test_doctor_names_the_layers_that_adapters_can_be_put_on(sage, tmp_path, name, targets, said):
    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    model = of_architecture(name, tokenizer, max_position_embeddings=96)
    model.save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    (tmp_path / "mine.jsonl").write_text(json.dumps({"question": "1+1=?", "gold": "2"}))
    sets = ["--set", "evaluation.limit=3", "--set", "model.tuning=lora"]
    if targets is not None:
        sets += ["--set", f"model.lora.targets={targets}"]
    typed = sage("doctor", "--init", tmp_path / "m", "--data", tmp_path / "mine.jsonl", *sets)
    assert typed.code == (1 if said else 0)
    assert said is None or said in typed.words
    assert "the model's context has 96" in typed.words
