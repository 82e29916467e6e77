"""Runs are named by their settings and parent, and described, before anything is loaded."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from random_model import save_scratch

from sage_cli.config.consent import consents
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, SageError, StoreError
from sage_cli.models.compatibility import note_weights, require_same_parent
from sage_cli.models.facts import remarks, rl_facts, state
from sage_cli.models.folders import fingerprint
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.planned import planned_base, rl_run, sft_run
from sage_cli.models.policy import Policy
from sage_cli.models.reference import policy_and_reference, reference_policy
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.identity import training_identity
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run, Runs
from sage_cli.training.rollouts import reference_samples


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def config(*sets):
    return load(sets=sets).config


def base_id(runs, *sets):
    return sft_run(config(*sets), runs).id


def policy_id(runs, *sets, processes=1):
    settings = config("guide.name=branch", *sets)
    base = planned_base(settings, runs)
    return rl_run(settings, base, runs, processes).id


def test_runs_are_named_before_anything_is_there_and_by_their_processes(runs):
    assert base_id(runs).startswith("sft-arithmetic-")
    assert policy_id(runs).startswith("rl-grpo-branch-")
    assert not runs.root.exists()
    assert policy_id(runs, processes=2) != policy_id(runs, processes=1)


@pytest.mark.parametrize(
    ("name", "idle", "read"),
    [
        ("sft", "sft.epochs=3", "sft.steps=3"),  # tiny has steps
        ("rl", "model.lora.rank=4", "model.tuning=lora"),
        ("rl", "rl.epsilon_low=0.3", "rl.loss=bnpo"),
        ("rl", "rollout.vllm.server_timeout_s=9", "rollout.temperature=0.9"),
    ],
)
def test_a_setting_that_nothing_reads_is_in_no_hash(runs, name, idle, read):
    plan, unclipped = {"sft": base_id, "rl": policy_id}[name], "rl.clip=false"
    today = plan(runs, unclipped)
    assert plan(runs, unclipped, idle) == today != plan(runs, unclipped, read)


def test_a_run_under_the_hash_of_an_earlier_release_is_found_unless_there_is_one_of_today(runs):
    idle = ("rl.clip=false", "rl.epsilon_low=0.3")
    given = config("guide.name=branch", *idle)
    # as it was hashed: all settings as they were given
    hashed = {
        "parent": planned_base(given, runs).identity,
        "tuning": ["full", "float32", None],
        "compute": "auto",
        **{
            section: getattr(given, section).determinants()
            for section in ("prompt", "rl", "rollout", "anchor", "guide", "grading")
        },
        "data": training_identity(given.data),
    }
    former = runs.at("rl", "grpo-branch", identity_of("rl", hashed))
    today = policy_id(runs, *idle)
    assert former.id != today
    with former.recording({}, kind="rl", parent=None, seed=1, template=""):
        pass
    assert policy_id(runs, *idle) == former.id
    assert policy_id(runs, "rl.clip=false") == today  # whose values were always the default ones
    with Run(runs.root / today).recording({}, kind="rl", parent=None, seed=1, template=""):
        pass
    assert policy_id(runs, *idle) == today


UNCHANGED = {
    "the base": [
        "sft.save_every=3",
        "tracking.wandb=off",
        "run.root=elsewhere",
        "sampling.batch_rows=5",
        "rl.steps=9",
        "guide.tau=0.1",
        "model.tuning=lora",
        "sweep.retries=4",
        "grading.workers=3",
    ],
    "the policy": [
        "rl.save_every=3",
        "rl.keep_checkpoints=9",
        "rl.stop_when_stuck=false",
        "sweep.retries=3",
        "evaluation.samples=3",
        "sampling.temperature=0.2",
        "tracking.group=x",
        "grading.workers=2",
        "rl.allow_template_mismatch=true",
        "model.lora.rank=2",
    ],
}
CHANGED = {
    "the base": [
        "sft.steps=3",
        "model.hidden=32",
        "model.seed=4",
        "prompt.answer_open=<A>",
        "sft.seed=9",
        "data.arithmetic.seed=2",
    ],
    "the policy": [
        "rl.steps=3",
        "rl.seed=9",
        "guide.tau=0.1",
        "anchor.beta=0.5",
        "rollout.max_tokens=9",
        "grading.mode=math-verify",
        "rl.learning_rate=1e-3",
        "model.tuning=lora",
        "rl.steps_per_generation=2",
        "model.compute_dtype=bfloat16",
    ],
}
IDS = {"the base": base_id, "the policy": policy_id}


@pytest.mark.parametrize(
    ("what", "setting", "changes"),
    [
        (what, setting, cases is CHANGED)
        for cases in (UNCHANGED, CHANGED)
        for what, settings in cases.items()
        for setting in settings
    ],
)
def test_a_run_is_named_by_what_makes_it(runs, what, setting, changes):
    guided = ("guide.name=branch",) if setting.startswith("guide") else ()
    assert (IDS[what](runs, *guided, setting) != IDS[what](runs)) is changes
    if changes:  # a base names what grows from it
        assert policy_id(runs, setting) != policy_id(runs)


def test_a_base_that_is_taken_as_it_is(runs):
    theirs = ("model.kind=pretrained", "model.path=a/b", "sft.enabled=false")
    other = load(sets=[*theirs, "model.revision=v1"]).config
    policy = planned_base(other, runs)
    assert (policy.path, policy.run) == ("a/b", None)
    assert policy.loading == {"revision": "v1", "trust_remote_code": False}
    moved = planned_base(load(sets=[*theirs, "model.revision=v2"]).config, runs)
    assert policy.identity != moved.identity
    with pytest.raises(ConfigurationError, match="random weights"):
        planned_base(config("sft.enabled=false"), runs)


def finish(run, content="weights"):
    """What a training leaves, as far as it matters here."""
    with run.recording({}, kind="sft"):
        run.model.mkdir(parents=True, exist_ok=True)
        (run.model / "model.safetensors").write_text(content)
        note_weights(run)


def test_a_finished_parent_has_the_identity_that_was_planned(runs):
    run = sft_run(config(), runs)
    before = policy_id(runs)
    finish(run)
    assert Run(run.folder).read_identity() == run.read_identity()
    assert Policy.of_run(Run(run.folder)).identity == run.read_identity()
    assert policy_id(runs) == before


def test_a_run_without_an_identity_is_told_by_its_weights(runs):
    run = Run(runs.root / "sft-arithmetic-00000000")
    finish(run)
    assert run.read_identity() is None
    assert Policy.of_run(run).identity == Policy.of_run(run).fingerprint


def test_a_checkpoint_is_another_parent_than_the_end(runs):
    run = sft_run(config(), runs)
    finish(run)
    checkpoint = Policy(str(run.checkpoints / "checkpoint-5"), run, checkpoint=5)
    assert checkpoint.identity == f"{run.read_identity()}@5"


def test_changed_weights_are_refused_by_name(runs):
    run = sft_run(config(), runs)
    finish(run)
    assert Policy.of_run(run).fingerprint == run.read_manifest()["weights"]
    (run.model / "model.safetensors").write_text("others")
    changed = Policy.of_run(run)
    for use in (changed.require_own, lambda: changed.tokenizer, changed.model):
        with pytest.raises(StoreError, match=f"{run.model}/model.safetensors was changed"):
            use()


def test_removed_weights_keep_their_fingerprint_and_can_not_be_loaded(runs):
    run = sft_run(config(), runs)
    run.model.mkdir(parents=True)
    (run.model / "tokenizer.json").write_text("{}")
    finish(run)
    before = Policy.of_run(run).fingerprint
    (run.model / "model.safetensors").unlink()
    removed = Policy.of_run(run)
    assert removed.fingerprint == before
    with pytest.raises(SageError, match=str(run.model)):
        removed.model()
    for other, said in (
        ("adapter_model.bin", "is missing"),  # PEFT would load it in the place of the removed one
        ("tokenizer.json", "was changed"),
    ):
        (run.model / other).write_text("another")
        with pytest.raises(StoreError, match=said):
            Policy.of_run(run).require_own()
        (run.model / other).unlink()


def test_a_child_that_meets_other_weights_of_its_parent_refuses(runs):
    parent, child = sft_run(config(), runs), runs.at("rl", "x", "1" * 16)
    finish(parent)
    base = Policy.of_run(parent)
    with child.recording({}, kind="rl", parent=parent.id, parent_weights=base.fingerprint):
        pass
    require_same_parent(child, base)
    finish(parent, "trained again elsewhere")
    with pytest.raises(
        StoreError, match=f"{child.id} was started from weights {base.fingerprint} of"
    ):
        require_same_parent(child, Policy.of_run(parent))


def test_the_state_of_a_run_in_words(runs):
    run = runs.at("rl", "x", "1" * 16)
    assert state(run) == "not trained yet"
    with pytest.raises(KeyboardInterrupt), run.recording({}, kind="rl"):  # noqa: PT012
        run.metrics.append({"step": 9, "of": 20})
        raise KeyboardInterrupt
    assert state(run) == "interrupted at step 9 of 20"
    run.note(result_version=None, versions={"sage": "0.0.9"}, commit="1234567")  # an older one's
    assert state(run) == (
        "interrupted at step 9 of 20; can be resumed by the release that began it (sage 0.0.9, "
        "commit 1234567)"
    )
    with pytest.raises(StoreError), run.recording({}, kind="rl"):
        raise StoreError("no room")
    assert state(run) == "failed at step 9 of 20: no room"
    run.note(status="pruned", reason="below the median at step 9")
    assert state(run) == "pruned at step 9 of 20: below the median at step 9"
    with run.recording({}, kind="rl"):
        pass
    assert state(run) == "finished"


SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
COMMITS = {"v1": "1" * 40, "v2": "2" * 40}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model in the Hub's format, its weights in bfloat16 as most are stored."""
    config, folder = load(sets=SIZE).config, tmp_path_factory.mktemp("published")
    save_scratch(config.model, config.prompt.tags, [], folder)
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
    return load(sets=[*names, *sets]).config


def trained(runs, config, save):
    """A base's run, as far as its files show."""
    run = runs.at("sft", "base", "1" * 16)
    with run.recording({"model": config.model.model_dump(mode="json")}, kind="sft"):
        save(run.model)
    return Policy.of_run(run, consent=consents(config.model))


FULL, LORA = "model.tuning=full", "model.tuning=lora"
BASE = "anchor.reference=pre-sft"


def test_after_warm_up_in_full_base_is_the_model_as_published(published, tmp_path):
    config = pretrained(published, FULL, BASE)
    start = trained(
        Runs(tmp_path), config, lambda folder: load_model(published).save_pretrained(folder)
    )
    assert reference_policy(start, config).path == str(published)
    assert reference_policy(start, pretrained(published, FULL)) is start
    as_it_is = Policy(str(published), section=config.model)
    assert reference_policy(as_it_is, config) is as_it_is


def test_the_trainer_is_given_that_models_folder(published, tmp_path):
    def save(folder):
        model = load_model(published)
        with torch.no_grad():
            model.model.norm.weight.mul_(3)
        model.save_pretrained(folder)

    for sets, expected in (((FULL, BASE), published), ((FULL,), None)):
        config = pretrained(published, *sets)
        start = trained(Runs(tmp_path / str(len(sets))), config, save)
        model, folder = policy_and_reference(config, start)
        assert folder == (expected or Path(start.path))
        # weights that are stored in bfloat16 are trained in float32
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_below_an_adapter_is_the_model_it_lies_on(published, tmp_path):
    config = pretrained(published, LORA, BASE, "model.trust_remote_code=true")
    start = trained(
        Runs(tmp_path),
        config,
        lambda folder: attach_lora(load_model(published), config.model.lora).save_pretrained(
            folder
        ),
    )
    below = reference_policy(start, config)
    assert (below.path, below.run) == (str(published), None)
    assert below.loading["trust_remote_code"] is True
    unasked = reference_policy(Policy.of_run(start.run), config)
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
    scratch = load(sets=SIZE).config
    start = trained(
        Runs(tmp_path), scratch, lambda folder: load_model(published).save_pretrained(folder)
    )
    with pytest.raises(ConfigurationError, match="was trained from random weights"):
        reference_policy(start, pretrained(published, FULL, BASE))


def test_a_reference_of_the_hub_is_read_at_its_revision(hub):
    config = pretrained("some/model", FULL, "sft.enabled=false", "model.revision=v1")
    start = Policy("some/model", section=config.model)
    model, folder = policy_and_reference(config, start)
    assert folder == hub / "snapshots" / COMMITS["v1"]
    norms = [loaded.model.norm.weight.mean().item() for loaded in (model, load_model(folder))]
    assert norms == [1, 1]  # main's are 2
    with pytest.raises(DataError, match="'other/model' is not a folder here"):
        _ = Policy("other/model").folder


def test_an_adapter_on_a_model_of_the_hub_is_read_at_the_runs_revision(hub, tmp_path):
    config = pretrained("some/model", LORA, "model.revision=v1")

    def save(folder):
        base = Policy("some/model", section=config.model)
        attach_lora(base.model(), config.model.lora).save_pretrained(folder)
        base.tokenizer.save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        assert settings["base_model_name_or_path"] == "some/model"

    start = trained(Runs(tmp_path), config, save)
    assert start.loading == {"revision": "v1", "trust_remote_code": False}
    assert start.model().base_model.model.model.norm.weight.mean().item() == 1
    assert start.fingerprint == fingerprint(start.path, "v1") != fingerprint(start.path)


def said(**sections):
    return remarks(SageConfig.model_validate(sections))


def test_estimator_reference_kl_and_dropout_are_named():
    (line,) = said(anchor={"estimator": "reward", "reference": "pre-sft", "beta": 0.1})
    assert "beta 0.1" in line
    assert "to the model before SFT" in line
    assert "estimator reward" in line
    assert "8 completions per prompt" in said(anchor={"kl": "forward"})[0]
    lora = {"tuning": "lora", "lora": {"dropout": 0.1}}
    assert "model.lora.dropout 0.1 has no effect in RL, which trains without dropout" in said(
        model=lora
    )
    assert not any("dropout" in line for line in said(model={"tuning": "lora"}))
    assert not any("dropout" in line for line in said(model=lora | {"tuning": "full"}))


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["rl.algo=grpo"], ""),
        (["rl.algo=dapo", "anchor.kl=reverse"], ""),
        (
            ["rl.algo=dapo"],
            "dapo has no KL term of its own, so nothing anchors this run; the unguided "
            "baseline of a guide is `sage rl --algo dapo --kl reverse`",
        ),
        (
            ["rl.algo=dapo", "guide.name=branch", "anchor.beta=0.3"],
            "the guide branch adds a KL term with beta 0.3 to dapo, which has none of its own; its "
            "unguided baseline is `sage rl --algo dapo --kl reverse` with the same other settings",
        ),
        (
            ["guide.name=branch"],
            "the guide branch reshapes the KL term of grpo; its unguided baseline is `sage rl "
            "--algo grpo` with the same other settings",
        ),
        (
            ["anchor.kl=none"],
            "anchor.kl is none, so nothing anchors this run; the unguided baseline of a guide is "
            "`sage rl --algo grpo`",
        ),
        (
            ["rl.algo=dapo", "anchor.kl=reverse", "anchor.beta=0"],
            "dapo has no KL term of its own, so nothing anchors this run; the unguided "
            "baseline of a guide is `sage rl --algo dapo --kl reverse`",
        ),
    ],
)
def test_plan_and_start_say_who_brings_the_kl_term(typed, sentence):
    config = load(sets=typed).config
    assert rl_facts(config).get("kl term", "") == sentence
    said_at_the_start = any(sentence in remark for remark in remarks(config))
    assert said_at_the_start or not sentence


@pytest.mark.parametrize(("estimator", "warned"), [("k3", 0), ("k3-corrected", 1), ("reward", 0)])
def test_branch_is_warned_about_where_it_does_nothing(estimator, warned):
    lines = said(guide={"name": "branch"}, anchor={"estimator": estimator})
    assert sum(line.startswith("warning: branch") for line in lines) == warned


@pytest.mark.parametrize(
    ("rl", "remarked"),
    [
        ({}, 0),
        ({"epsilon_high": 0.28}, 1),
        ({"epsilon_high": 0.28, "iterations": 2}, 0),
        ({"epsilon_low": 0.1, "steps_per_generation": 2}, 0),
        ({"epsilon_high": 0.28, "clip": False}, 0),
    ],
)
def test_a_clip_range_that_cannot_act_is_remarked_on(rl, remarked):
    lines = said(rl=rl)
    assert sum("0.2 / 0.28 has no effect with one update" in line for line in lines) == remarked
