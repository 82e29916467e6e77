"""A byte that rots keeps a file's size and time: whatever loads the weights names the file."""

import hashlib
import json
import os
import shutil

import pytest
import torch
from random_model import save_scratch

from sage_cli.config.load import load
from sage_cli.errors import DataError, StoreError
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.file_hash import file_hash
from sage_cli.models.folders import fingerprint
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.policy import Policy
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.models.verification import recorded_files, require_verified, verify_weights
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.sampler import SamplerSetup, SamplingParameters
from sage_cli.settings.model import LoraSection, ScratchModel
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import seal

TAGS = ("<a>", "</a>")
REMEMBERED = ScratchModel(kind="scratch", hidden=48, layers=2, heads=2, feed_forward=96, seed=3)
"""More than 64 KB of weights: the hashes of smaller files are never remembered."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    save_scratch(REMEMBERED, TAGS, [], folder)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rot(file, at=-9, bit=0x02):
    """Flip a bit, by default of a weight's exponent, and keep the file's size and time."""
    status, content = file.stat(), bytearray(file.read_bytes())
    content[at] ^= bit
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def finished_run(root, fill):
    """A run whose model `fill` has written, finished as by a training."""
    run = Run(root / "sft-toy-aaaaaaaa", "a" * 64)
    with run.recording({"model": {}}, kind="sft", parent=None, seed=0, template="t") as recorded:
        fill(recorded.model)
        recorded.note(weights=fingerprint(recorded.model))
    return run


def copy_of(whole):
    return lambda folder: shutil.copytree(whole, folder)


def model_of_a_run(whole, root):
    model = finished_run(root, copy_of(whole)).model
    return model, model / "model.safetensors"


def checkpoint(whole, root):
    folder = shutil.copytree(whole, root / "checkpoint-2")
    seal(folder)
    return folder, folder / "model.safetensors"


def folder_of_ones_own(whole, root):
    folder = shutil.copytree(whole, root / "theirs")
    fingerprint(folder)  # names its samples, as every command does
    return folder, folder / "model.safetensors"


def base_of_an_adapter(whole, root):
    base = finished_run(root, copy_of(whole)).model
    load_tokenizer(base).save_pretrained(root / "adapter")
    attach_lora(load_model(base), LoraSection(rank=2, alpha=4)).save_pretrained(root / "adapter")
    return root / "adapter", base / "model.safetensors"


def cache_of_the_hub(whole, root):
    """A snapshot's files are links to blobs, of which large ones are called by their SHA-256."""
    snapshot, blobs = root / "snapshots" / ("c" * 40), root / "blobs"
    shutil.copytree(whole, snapshot)
    blobs.mkdir()
    file = snapshot / "model.safetensors"
    blob = blobs / hashlib.sha256(file.read_bytes()).hexdigest()
    file.rename(blob)
    file.symlink_to(blob)
    return snapshot, blob


PLACES = [
    model_of_a_run,
    checkpoint,
    folder_of_ones_own,
    base_of_an_adapter,
    cache_of_the_hub,
]


@pytest.mark.parametrize("place", PLACES)
def test_a_rotten_byte_is_named_by_whatever_loads_it(place, whole, tmp_path):
    model, weights = place(whole, tmp_path)
    names = {file.path for file in recorded_files(model)}
    assert weights in names
    before = load_model(model)
    rot(weights)
    for _ in range(2):  # no command believes what another one found
        with pytest.raises(StoreError, match=rf"{weights.name} is damaged") as raised:
            load_model(model)
        assert raised.value.next_step
    rot(weights)  # the same bit again: it is repaired
    after = load_model(model)
    assert all(
        torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)
    )


def test_no_completion_of_rotten_weights_is_stored(whole, tmp_path):
    model, weights = model_of_a_run(whole, tmp_path)
    policy = Policy.of_run(Run(model.parent))
    policy.require_own()  # what is remembered of them
    rot(weights)
    policy.require_own()  # a command that loads nothing reads nothing
    config = load(["tiny"], sets=["sampling.backend=builtin", "sampling.max_tokens=4"]).config
    parameters = SamplingParameters(1.0, 1.0, 0, 0.0, 4, None)
    samples = PolicySamples(policy, config.prompt, parameters, "auto", tmp_path).at(0)
    setup = SamplerSetup(model, parameters, config.sampling)
    with build_sampler(setup) as sampler:
        with pytest.raises(StoreError, match="is damaged"):
            fill(samples, {"p": "1+1="}, 2, sampler)
        assert samples.inventory().count_missing(["p"], 2) == 2
        rot(weights)  # and sampled from sound weights
    with build_sampler(setup) as sampler:
        assert fill(samples, {"p": "1+1="}, 2, sampler) == 2


def test_hashes_can_be_waited_for_later(whole, tmp_path):
    model, weights = model_of_a_run(whole, tmp_path)
    load_model(model, verify_later=True)
    require_verified()
    rot(weights)
    load_model(model, verify_later=True)
    with pytest.raises(StoreError, match="is damaged"):
        require_verified()
    require_verified()  # what was told is not told again of another model


def test_damage_explains_why_loading_failed(whole, tmp_path):
    model, weights = model_of_a_run(whole, tmp_path)
    rot(weights, at=0, bit=0x80)  # the length of the header
    with pytest.raises(StoreError, match="is damaged"):
        load_model(model)
    rot(weights, at=0, bit=0x80)
    (model / "config.json").unlink()
    with pytest.raises(StoreError, match=r"config\.json is missing"):
        load_model(model)


def test_an_error_of_sound_weights_stays_what_it_is(whole, tmp_path):
    model, _ = model_of_a_run(whole, tmp_path)
    with pytest.raises(DataError, match="no such backend"), verify_weights(model):
        raise DataError("no such backend", None)
    with pytest.raises(KeyboardInterrupt), verify_weights(model):
        raise KeyboardInterrupt


def test_the_first_process_of_a_machine_hashes_for_all(whole, tmp_path, monkeypatch):
    model, weights = model_of_a_run(whole, tmp_path)
    rot(weights)
    monkeypatch.setenv("LOCAL_RANK", "1")
    load_model(model)
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(StoreError, match="is damaged"):
        load_model(model)


def test_no_file_is_blamed_for_what_was_remembered_of_it(whole, tmp_path):
    """The rotten file was hashed by an earlier command, and repaired by a copy of the same time."""
    model, weights = model_of_a_run(whole, tmp_path)
    run, status = Run(model.parent), weights.stat()
    rot(weights)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(StoreError, match="was changed"):
        Policy.of_run(run).require_own()
    rot(weights)
    Policy.of_run(run).require_own()
    assert (
        file_hash(weights)
        == json.loads((run.folder / "manifest.json").read_text())["files"][
            "model/model.safetensors"
        ]
    )
