"""Models from nothing, saved, loaded, adapted, told apart; and folders that hold none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from random_model import save_scratch

from sage_cli.errors import DataError
from sage_cli.models.folders import fingerprint
from sage_cli.models.loading import attach_lora, build_scratch, load_model
from sage_cli.models.policy import Policy
from sage_cli.models.tokenizer import build_tokenizer, load_tokenizer
from sage_cli.settings.model import LoraSection, PretrainedModel, ScratchModel, trained_dtype

TAGS = ("<a>", "</a>")
SMALL = ScratchModel(kind="scratch", hidden=16, layers=1, heads=2, feed_forward=32, seed=3)
LORA = LoraSection(rank=2, alpha=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scratch")
    save_scratch(SMALL, TAGS, [], folder)
    return folder


@pytest.fixture(scope="module")
def adapter(folder, tmp_path_factory):
    """An adapter whose B matrices aren't zero, so that it changes what the model says."""
    model = attach_lora(load_model(folder), LORA)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    path = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(path)
    load_tokenizer(folder).save_pretrained(path)
    return path


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def logits(model):
    with torch.no_grad():
        return model.eval()(torch.arange(8).view(1, -1)).logits


def test_weights_follow_shape_and_seed_and_nothing_else():
    tokenizer = build_tokenizer(SMALL, TAGS, [])
    torch.manual_seed(0)
    first = build_scratch(SMALL, tokenizer).state_dict()
    state = torch.get_rng_state()
    again = build_scratch(SMALL, tokenizer).state_dict()
    assert torch.equal(state, torch.get_rng_state())  # drawing weights leaves the state alone
    torch.manual_seed(99)
    third = build_scratch(SMALL, tokenizer).state_dict()
    other = build_scratch(SMALL.model_copy(update={"seed": 4}), tokenizer).state_dict()
    weight = "model.layers.0.mlp.up_proj.weight"
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(first[weight], third[weight])
    assert not torch.equal(first[weight], other[weight])
    model = build_scratch(SMALL, build_tokenizer(SMALL, TAGS, []))
    # vocabulary 94 printable + space + 2 tags + end + padding = 99; tied embeddings 99 x 16;
    # attention: q, k, v with bias 3 x (16 x 16 + 16), o 16 x 16; MLP 3 x 16 x 32; norms 3 x 16
    assert model.num_parameters() == 99 * 16 + 3 * (16 * 16 + 16) + 16 * 16 + 3 * 16 * 32 + 3 * 16


def test_a_saved_folder_loads_like_any_other(folder):
    tokenizer = load_tokenizer(folder)
    built = build_scratch(SMALL, tokenizer)
    loaded = load_model(folder)
    assert torch.equal(logits(loaded), logits(built))
    assert loaded.generation_config.eos_token_id == tokenizer.eos_token_id
    assert loaded.generation_config.pad_token_id == tokenizer.pad_token_id
    assert [file.suffix for file in folder.glob("*.bin")] == []  # safetensors only
    section = PretrainedModel(path=str(folder), dtype="bfloat16")
    assert (
        Policy(section.path, section=section).model(dtype=trained_dtype(section)).dtype
        == torch.bfloat16
    )


def test_a_tokenizer_without_padding_pads_with_its_end(copy):
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings["pad_token"] = None  # without the key its class would bring one
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = load_tokenizer(copy)
    assert tokenizer.pad_token == "<|end|>"
    assert tokenizer.padding_side == "left"


def test_lora_starts_as_the_model_itself_and_freezes_it(folder):
    model = attach_lora(load_model(folder), LORA)
    assert torch.equal(logits(model), logits(load_model(folder)))
    trainable = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trainable
    assert all("lora_" in name for name in trainable)
    # r x (in + out): q, k, v, o 2 x (16 + 16) each, gate, up, down 2 x (16 + 32) each
    count = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert count == 4 * 2 * 32 + 3 * 2 * 48
    assert model.peft_config["default"].lora_alpha == 4


def test_an_adapters_folder_loads_with_its_base(folder, adapter):
    adapted = load_model(adapter)
    assert not torch.allclose(logits(adapted), logits(load_model(folder)))
    assert not any(weight.requires_grad for weight in adapted.parameters())
    open_ = load_model(adapter, trainable=True)
    assert torch.equal(logits(open_), logits(adapted))
    assert any(weight.requires_grad for weight in open_.parameters())
    assert load_tokenizer(adapter).eos_token == "<|end|>"


def test_a_fingerprint_is_the_content(folder, adapter, copy):
    assert fingerprint(copy) == fingerprint(folder)
    assert len(fingerprint(copy)) == 16
    seen = {fingerprint(copy), fingerprint(adapter)}
    with (copy / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)[0]
        weights.seek(-1, 2)
        weights.write(bytes([last ^ 1]))
    seen.add(fingerprint(copy))
    (copy / "tokenizer.json").write_text((copy / "tokenizer.json").read_text() + " ")
    seen.add(fingerprint(copy))
    (copy / "README.md").write_text("not part of the model")
    seen.add(fingerprint(copy))
    assert len(seen) == 4


@pytest.mark.parametrize("from_disk", [False, True])
def test_an_adapters_targets_are_written_in_one_order(folder, adapter, tmp_path, from_disk):
    """PEFT writes a set, in the order of the process's own hashes."""
    model = load_model(adapter) if from_disk else attach_lora(load_model(folder), LORA)
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["target_modules"] == sorted(LORA.targets)


def test_an_adapter_finds_its_base_from_anywhere_and_after_a_move(folder, tmp_path, monkeypatch):
    """A run's base is named relative to the folder where the command was typed."""
    monkeypatch.chdir(tmp_path)
    base, path = Path("runs/sft-a-1/model"), Path("runs/rl-b-2/model")
    shutil.copytree(folder, base)
    attach_lora(load_model(base), LORA).save_pretrained(path)
    recorded = json.loads((path / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert recorded == str(tmp_path / base)
    said, told = logits(load_model(path)), fingerprint(path)
    monkeypatch.chdir("/")
    assert torch.equal(logits(load_model(tmp_path / path)), said)

    moved = (tmp_path / "runs").rename(tmp_path / "moved")
    again = load_model(moved / "rl-b-2/model")
    assert torch.equal(logits(again), said)
    assert fingerprint(moved / "rl-b-2/model") == told
    # taken up from a checkpoint there, it names the base's new place
    assert again.peft_config["default"].base_model_name_or_path == str(moved / "sft-a-1/model")


def test_an_adapter_of_another_base_is_another_model(adapter, copy, tmp_path):
    other = shutil.copytree(adapter, tmp_path / "adapter")
    settings = json.loads((other / "adapter_config.json").read_text())
    (copy / "tokenizer.json").write_text((copy / "tokenizer.json").read_text() + " ")
    settings["base_model_name_or_path"] = str(copy)
    (other / "adapter_config.json").write_text(json.dumps(settings))
    assert fingerprint(other) != fingerprint(adapter)
    (other / "adapter_config.json").write_text("{}")
    with pytest.raises(DataError, match="names no base model"):
        fingerprint(other)


def test_a_model_of_the_hub_is_told_by_name_and_revision():
    name = "somebody/model"
    assert fingerprint(name) == fingerprint(name, None)
    assert len({fingerprint(name), fingerprint(name, "a"), fingerprint(name, "b")}) == 3


def overwritten(file, text):
    return lambda folder: (folder / file).write_text(text)


def configured(**changed):
    def damage(folder):
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | changed))

    return damage


def cut(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    weights = build_scratch(SMALL, load_tokenizer(folder)).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")


NO_MODEL = "no model can be loaded from"


@pytest.mark.parametrize(
    ("load", "damage", "cause"),
    [
        (load_model, shutil.rmtree, r"there is no folder .*/copy"),
        (load_tokenizer, shutil.rmtree, r"there is no folder .*/copy"),
        (load_model, lambda folder: [file.unlink() for file in folder.iterdir()], NO_MODEL),
        (load_model, cut, NO_MODEL),
        (load_model, pickled, NO_MODEL),
        (load_model, overwritten("config.json", "{not json"), NO_MODEL),
        (load_model, overwritten("adapter_config.json", "{not json"), NO_MODEL),
        (load_model, overwritten("adapter_config.json", "{}"), r"weights \(adapter_model\.saf"),
        (load_model, configured(dtype="float2"), NO_MODEL),
        (load_model, configured(hidden_size="wide"), NO_MODEL),
        (load_model, configured(hidden_size=None), NO_MODEL),
        (load_tokenizer, overwritten("tokenizer.json", "{not json"), "no tokenizer can be loaded"),
        # Transformers alone makes up an empty Qwen2 tokenizer for such a folder
        (load_tokenizer, lambda folder: (folder / "tokenizer.json").unlink(), "contains none of"),
    ],
)
def test_a_damaged_folder_is_named(copy, load, damage, cause):
    damage(copy)
    with pytest.raises(DataError, match=cause) as caught:
        load(copy)
    assert "folder" in str(caught.value.next_step)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")


BLOCK_MB, TIMES = 50, 4
"""glibc maps each block of more than 32 MB by itself."""
PAGE_FAULTS = f"""
import resource
import sys

import numpy

from sage_cli.models.loading import keep_freed_memory, load_model


def count_faults(times):
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        numpy.ones(({BLOCK_MB}, 2**17))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun


count_faults(2)  # the first blocks are new in any case
before = count_faults({TIMES})
load_model(sys.argv[1]) if sys.argv[1:] else keep_freed_memory()
count_faults(2)
print(before, count_faults({TIMES}), keep_freed_memory())
"""


def faults(program, python, *folder, **environment):
    """New pages for a block before memory is kept and after, and whether it is."""
    program.write_text(PAGE_FAULTS)
    told = ("MALLOC_", "GLIBC_TUNABLES")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(told)}
    done = subprocess.run(
        [python, str(program), *map(str, folder)],
        capture_output=True,
        text=True,
        env={**ours, "OMP_NUM_THREADS": "1", **environment},
        check=True,
    )
    before, after, kept = done.stdout.split()
    return int(before), int(after), kept == "True"


def test_a_process_that_loads_a_model_keeps_its_memory_unless_the_environment_says(
    folder, warm, tmp_path
):
    program = tmp_path / "page_faults.py"
    fetched = TIMES * BLOCK_MB // 2  # even where a page has 2 MB
    before, after, kept = faults(program, warm.python, folder)
    assert (before >= fetched, after < 100, kept) == (True, True, True)
    _, after, kept = faults(program, sys.executable, MALLOC_MMAP_THRESHOLD_="1048576")
    assert (after >= fetched, kept) == (True, False)
