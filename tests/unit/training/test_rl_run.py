"""What `sage rl` says and refuses before anything is trained, and what `--fresh` leaves alone."""

from types import SimpleNamespace

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError, TrainingError
from sage_cli.models.planned import planned_base
from sage_cli.models.policy import Policy
from sage_cli.models.stages import plan_of
from sage_cli.models.tokenizer_facts import TokenizerFacts
from sage_cli.progress import Silent
from sage_cli.store.locks import writer
from sage_cli.store.run import Runs
from sage_cli.training.run import InitialPolicy, RlTraining, SftTraining

RL = "sage_cli.training.run"


def config(tmp_path, *sets):
    trained_here = ["sft.shipped=false", "tracking.wandb=off", f"run.root={tmp_path}/runs"]
    return load(sets=[*trained_here, *sets]).config


def plan(settings):
    return plan_of(RlTraining.of(settings).stages)


def test_a_start_is_loaded_as_the_configuration_says(tmp_path):
    """With its consent to code of the model's own, and at its revision if it is that very model."""
    for name in ("theirs", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        # a header of two bytes, without tensors
        (tmp_path / name / "model.safetensors").write_bytes(b"\2" + bytes(7) + b"{}")
    theirs, other = str(tmp_path / "theirs"), str(tmp_path / "other")
    sets = ["model.kind=pretrained", f"model.path={theirs}", "model.revision=v1"]
    ours = config(tmp_path, *sets, "model.trust_remote_code=true")
    assert [InitialPolicy(ours, init).policy.loading for init in (theirs, other)] == [
        {"revision": "v1", "trust_remote_code": True},
        {"revision": None, "trust_remote_code": True},
    ]


LAUNCHED = {"LOCAL_RANK": "0", "WORLD_SIZE": "1"}
ZERO_3 = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
FSDP_2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
NEXT = "is not trained yet"
"""The next obstacle: the base isn't there, and several processes don't train it."""


@pytest.mark.parametrize(
    ("environment", "sets", "said"),
    [
        ({"SAGE_PROCESSES": "2"}, "", "started 1 of 2 processes"),
        (LAUNCHED, "", r"the initial policy .* is not trained yet"),
        (LAUNCHED | ZERO_3, "model.tuning=lora", "ZeRO stage 3 fails at the first step"),
        (LAUNCHED | ZERO_3, "model.tuning=full", NEXT),
        (LAUNCHED | FSDP_2, "rl.optimizer=adamw_8bit", "'adamw_8bit' can't update weights"),
        (LAUNCHED | FSDP_2, "rl.optimizer=adamw", NEXT),
    ],
)
def test_under_a_launcher_what_cannot_train_is_refused_before_anything_is_loaded(
    tmp_path, monkeypatch, environment, sets, said
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((ConfigurationError, TrainingError), match=said) as caught:
        RlTraining.of(config(tmp_path, *sets.split())).execute(Silent())
    assert not (tmp_path / "runs").exists()
    if "initial policy" in said:
        step = "`sage sft`, the same --preset, --config and --runs, and those --set that"
        assert step in str(caught.value.next_step)


def finish(run, **fields):
    with run.recording({}, kind=run.id.partition("-")[0], **fields):
        run.model.mkdir(parents=True, exist_ok=True)
        (run.model / "model.safetensors").write_text("weights")
        run.note(weights=Policy.of_run(run).fingerprint)
    return run


def base_of(settings):
    return planned_base(settings, Runs(settings.run.root)).run


@pytest.fixture
def settings(tmp_path):
    return config(tmp_path)


@pytest.fixture
def base(settings):
    """The base of `settings`, as if it were trained."""
    return finish(base_of(settings))


@pytest.fixture
def any_tokenizer(monkeypatch):
    """Policies whose folders hold no tokenizer, where no training reads it."""
    monkeypatch.setattr(f"{RL}.check_fitting_tokenizer", lambda *_, **__: None)


@pytest.mark.parametrize("launched", [True, False])
def test_a_finished_run_is_found_without_a_look_at_data_or_weights(
    settings, base, monkeypatch, launched
):
    checked = "sage_cli.training.checks.training_problems"
    monkeypatch.setattr(checked, lambda *_: pytest.fail("problems were loaded"))
    if launched:
        for name, value in LAUNCHED.items():
            monkeypatch.setenv(name, value)
        alone = SimpleNamespace(is_main_process=True, wait_for_everyone=lambda: None)
        monkeypatch.setattr(f"{RL}.join_processes", lambda: alone)
    run = finish(RlTraining.of(settings).planned)
    assert RlTraining.of(settings).execute(Silent()).id == run.id


def test_a_plan_says_exactly_what_is_there(tmp_path):
    def states(*sets):
        stages = plan(config(tmp_path, "guide.name=branch", *sets))
        return [(stage.facts["run"], stage.facts["state"]) for stage in stages]

    settings = config(tmp_path, "guide.name=branch")
    base, policy = base_of(settings), RlTraining.of(settings).planned
    assert states() == [(base.id, "not trained yet"), (policy.id, "not trained yet")]
    finish(base)
    assert states() == [(base.id, "finished"), (policy.id, "not trained yet")]
    finish(policy)
    assert states()[1] == (policy.id, "finished")
    assert states("guide.tau=0.1")[1][1] == "not trained yet"


def test_a_second_launch_leaves_a_run_that_is_being_trained_alone(
    tmp_path, base, monkeypatch, any_tokenizer
):
    settings = config(tmp_path, "rl.processes=2", "run.sweep=tau-rho-1")
    run = RlTraining.of(settings).planned
    torn = run.checkpoints / "checkpoint-3"
    torn.mkdir(parents=True)  # as it is while it is being written
    with writer(run.folder), pytest.raises(StoreError, match="is being written by"):
        RlTraining.of(settings).execute(Silent())
    assert torn.is_dir()
    assert not (run.folder / "config.json").exists()
    monkeypatch.setattr("sage_cli.training.launch.run_together", lambda *_: finish(run))
    assert RlTraining.of(settings).execute(Silent()).read_manifest()["sweep"] == "tau-rho-1"


@pytest.mark.parametrize("measure", [False, True])
def test_an_engines_memory_ends_with_the_process_that_trains(
    settings, base, monkeypatch, measure, any_tokenizer
):
    """What is measured afterwards needs the GPU that a colocated engine would still hold."""
    where = []
    monkeypatch.setattr("sage_cli.training.rollouts.is_colocated", lambda _: True)
    monkeypatch.setattr(f"{RL}.train_together", lambda *_: where.append("a process of its own"))
    monkeypatch.setattr(Policy, "tokenizer_facts", TokenizerFacts("<eos>", None, "scratch"))
    monkeypatch.setattr("sage_cli.training.rl.train", lambda *_: where.append("here"))
    monkeypatch.setattr(f"{RL}.note_weights", lambda _: None)
    monkeypatch.setattr(f"{RL}.RlTraining.measure", lambda *_: None)
    RlTraining.of(settings, measure=measure).execute(Silent())
    assert where == ["a process of its own" if measure else "here"]


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        # 40 steps of 16 of 7,329 problems see each once: 640 problems
        ("anchor.kl=forward", "5,120 of 5,120 to sample, 8 of each of 640 problems"),
        (
            "anchor.kl=forward rl.steps=1000 anchor.reference_samples=2",
            "14,658 of 14,658 to sample, 2 of each of 7,329 problems",
        ),
        (
            "rl.algo=dph-rl rl.initial_samples=4",
            "2,560 of 2,560 to sample, 4 of each of 640 problems",
        ),
        ("", None),
    ],
)
def test_a_plan_says_how_many_completions_of_the_reference_are_sampled(tmp_path, sets, said):
    assert plan(config(tmp_path, *sets.split()))[1].facts.get("reference samples") == said


def test_what_others_grew_from_is_refused_with_their_names(settings, base):
    child = finish(RlTraining.of(settings).planned, parent=base.id)
    with pytest.raises(StoreError, match=f"{child.id} was trained from {base.id}") as caught:
        SftTraining.of(settings).execute(Silent(), fresh=True)
    assert "`sage runs remove`" in caught.value.next_step
    assert base.is_finished()
    finish(Runs(settings.run.root).at("rl", "later", "1" * 16), parent=child.id)
    with pytest.raises(StoreError, match=f"rl-later-11111111 was trained from {child.id}"):
        RlTraining.of(settings).execute(Silent(), fresh=True)


def test_a_base_of_other_weights_is_refused_and_an_old_run_left(settings, base):
    weights = base.model / "model.safetensors"
    weights.write_text("others")
    with pytest.raises(StoreError, match="safetensors was changed"):
        RlTraining.of(settings).execute(Silent())
    assert not RlTraining.of(settings).planned.folder.exists()
    weights.write_text("weights")
    run = finish(RlTraining.of(settings).planned, parent=base.id)
    base.note(weights="others")
    with pytest.raises(StoreError, match="was changed"):
        RlTraining.of(settings).execute(Silent(), fresh=True)
    assert run.is_finished()


def test_a_run_that_is_there_says_how_it_is_trained_again(settings, base):
    run = finish(RlTraining.of(settings).planned, parent=base.id)
    for training, found in ((RlTraining, run), (SftTraining, base)):
        said, progress = [], Silent()
        progress.say = said.append
        training.of(settings).found(found, progress)
        assert said == [
            f"[bold]{found.id}[/] is trained already; --fresh deletes it and trains it again"
        ]
