"""Which model `anchor.reference` means, and that a Hub model is read at its own revision."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from sage_cli.commands.train.sft import tags
from sage_cli.config.consent import consents
from sage_cli.config.load import load
from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.models.folders import fingerprint
from sage_cli.models.load import attach_lora, load_model, load_tokenizer
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import (
    policy_and_reference,
    reference_policy,
)
from sage_cli.models.scratch import save_scratch
from sage_cli.store.runs.run import Runs
from sage_cli.training.rollouts.reference_samples import reference_samples

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
COMMITS = {"v1": "1" * 40, "v2": "2" * 40}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model in the Hub's format, its weights in bfloat16 as most are stored."""
    config, folder = load(sets=SIZE).config, tmp_path_factory.mktemp("published")
    save_scratch(config.model, tags(config.prompt), [], folder)
    load_model(folder, dtype="bfloat16").save_pretrained(folder)
    return folder


@pytest.fixture
def hub(published, tmp_path, monkeypatch):
    """A cache of the Hub that holds two revisions of some/model, the second with other weights."""
    place = tmp_path / "hub/models--some--model"
    for revision, commit in COMMITS.items():
        (place / "refs").mkdir(parents=True, exist_ok=True)
        (place / "refs" / revision).write_text(commit)
        snapshot = shutil.copytree(published, place / "snapshots" / commit)
        if revision == "v2":
            model = load_model(published)
            with torch.no_grad():
                model.model.norm.weight.mul_(2)
            model.save_pretrained(snapshot)
    (place / "refs/main").write_text(COMMITS["v2"])
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return place


def pretrained(path, *sets):
    names = ["model.kind=pretrained", f"model.path={path}", "rl.optimizer=adamw"]
    return RlSpec.of(load(sets=[*names, *sets]).config)


def trained(runs, recipe, save):
    """A base's run, as far as its files show."""
    run = runs.at("sft", "base", "1" * 16)
    with run.recording({"model": recipe.model.model_dump(mode="json")}, kind="sft"):
        save(run.model)
    return Policy.of_run(run, consent=consents(recipe.model))


FULL, LORA = "model.tuning=full", "model.tuning=lora"
BASE = "anchor.reference=base"


def test_after_warm_up_in_full_base_is_the_model_as_published(published, tmp_path):
    recipe = pretrained(published, FULL, BASE)
    start = trained(
        Runs(tmp_path), recipe, lambda folder: load_model(published).save_pretrained(folder)
    )
    assert reference_policy(start, recipe).path == str(published)
    assert reference_policy(start, pretrained(published, FULL)) is start
    as_it_is = Policy(str(published), section=recipe.model)
    assert reference_policy(as_it_is, recipe) is as_it_is


def test_the_trainer_is_given_that_models_folder(published, tmp_path):
    def save(folder):
        model = load_model(published)
        with torch.no_grad():
            model.model.norm.weight.mul_(3)
        model.save_pretrained(folder)

    for sets, expected in (((FULL, BASE), published), ((FULL,), None)):
        recipe = pretrained(published, *sets)
        start = trained(Runs(tmp_path / str(len(sets))), recipe, save)
        model, folder = policy_and_reference(recipe, start)
        assert folder == (expected or Path(start.path))
        # weights that are stored in bfloat16 are trained in float32
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_below_an_adapter_is_the_model_it_lies_on(published, tmp_path):
    recipe = pretrained(published, LORA, BASE, "model.trust_remote_code=true")
    start = trained(
        Runs(tmp_path),
        recipe,
        lambda folder: attach_lora(load_model(published), recipe.model.lora).save_pretrained(
            folder
        ),
    )
    below = reference_policy(start, recipe)
    assert (below.path, below.run) == (str(published), None)
    assert below.loading["trust_remote_code"] is True
    unasked = reference_policy(Policy.of_run(start.run), recipe)
    assert unasked.loading["trust_remote_code"] is False  # its run's word isn't enough


def test_forward_kl_is_drawn_from_it(published, tmp_path):
    def save(folder):
        adapted = attach_lora(load_model(published), pretrained(published, LORA).model.lora)
        adapted.save_pretrained(folder)
        load_tokenizer(published).save_pretrained(folder)

    forward = "anchor.kl=forward"
    start = trained(Runs(tmp_path), pretrained(published, LORA), save)
    paths = [
        reference_samples(pretrained(published, LORA, forward, *sets), start, tmp_path).policy.path
        for sets in ((), (BASE,))
    ]
    assert paths == [start.path, str(published)]


def test_random_weights_are_no_reference(published, tmp_path):
    with pytest.raises(ConfigurationError, match="a model from scratch has random weights"):
        load(sets=[BASE])
    load(sets=[BASE, LORA])  # the base without its adapter
    load(sets=[BASE, "anchor.kl=none"])
    scratch = RlSpec.of(load(sets=SIZE).config)
    start = trained(
        Runs(tmp_path), scratch, lambda folder: load_model(published).save_pretrained(folder)
    )
    with pytest.raises(ConfigurationError, match="began with random weights"):
        reference_policy(start, pretrained(published, FULL, BASE))


def test_a_reference_of_the_hub_is_read_at_its_revision(hub):
    recipe = pretrained("some/model", FULL, "sft.enabled=false", "model.revision=v1")
    start = Policy("some/model", section=recipe.model)
    model, folder = policy_and_reference(recipe, start)
    assert folder == hub / "snapshots" / COMMITS["v1"]
    norms = [loaded.model.norm.weight.mean().item() for loaded in (model, load_model(folder))]
    assert norms == [1, 1]  # main's are 2
    with pytest.raises(DataError, match="'other/model' is no folder here"):
        _ = Policy("other/model").folder


def test_an_adapter_on_a_model_of_the_hub_is_read_at_the_runs_revision(hub, tmp_path):
    recipe = pretrained("some/model", LORA, "model.revision=v1")

    def save(folder):
        base = Policy("some/model", section=recipe.model)
        attach_lora(base.model(), recipe.model.lora).save_pretrained(folder)
        base.tokenizer().save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        assert settings["base_model_name_or_path"] == "some/model"

    start = trained(Runs(tmp_path), recipe, save)
    assert start.loading == {"revision": "v1", "trust_remote_code": False}
    assert start.model().base_model.model.model.norm.weight.mean().item() == 1
    assert start.fingerprint == fingerprint(start.path, "v1") != fingerprint(start.path)
