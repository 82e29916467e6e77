"""What `sage rl` says and refuses before anything is trained."""

from types import SimpleNamespace

import pytest

from sage_cli.cli.training_run import InitialPolicy, RlTraining
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError, TrainingError
from sage_cli.models.folders import TokenizerFacts
from sage_cli.models.planned import planned_base
from sage_cli.models.policy import Policy
from sage_cli.models.stages import plan_of
from sage_cli.progress import Silent
from sage_cli.store.locks import writer
from sage_cli.store.run import Runs

RL = "sage_cli.cli.training_run"


def config(tmp_path, *sets):
    return load(sets=["tracking.wandb=off", f"run.root={tmp_path}/runs", *sets]).config


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
    assert [InitialPolicy.of(ours, init).policy.loading for init in (theirs, other)] == [
        {"revision": "v1", "trust_remote_code": True},
        {"revision": None, "trust_remote_code": True},
    ]


def test_a_launcher_that_starts_too_few_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGE_PROCESSES", "2")
    with pytest.raises(TrainingError, match="started 1 of 2 processes"):
        RlTraining.of(config(tmp_path)).carry_out(Silent())
    assert not (tmp_path / "runs").exists()


def test_under_a_launcher_the_base_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    training = RlTraining.of(config(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"the initial policy .* isn't trained yet"
    ) as caught:
        training.carry_out(Silent())
    assert "`sage sft` with the same --preset, --config and --runs, and those of --set that" in str(
        caught.value.next_step
    )


def test_under_a_launcher_a_finished_base_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    alone = SimpleNamespace(is_main_process=True, wait_for_everyone=lambda: None)
    monkeypatch.setattr("sage_cli.cli.training_run.join_processes", lambda: alone)
    settings = config(tmp_path)
    finish(planned_base(settings, Runs(settings.run.root)).run)
    finish(RlTraining.of(settings).planned)
    assert RlTraining.of(settings).carry_out(Silent()).id == RlTraining.of(settings).planned.id


@pytest.fixture
def any_tokenizer(monkeypatch):
    """Policies whose folders hold no tokenizer, where no training reads it."""
    monkeypatch.setattr(f"{RL}.refuse_unfit_tokenizer", lambda *_, **__: None)


def finish(run, weights="w"):
    with run.recording({}, kind="sft"):
        run.model.mkdir(parents=True, exist_ok=True)
        (run.model / "model.safetensors").write_text(weights)
        run.note(weights=Policy.of_run(run).fingerprint)


def test_a_plan_says_exactly_what_is_there(tmp_path):
    settings = config(tmp_path, "guide.name=branch")
    base, policy = planned_base(settings, Runs(settings.run.root)).run, None
    before = [stage.facts["state"] for stage in plan(settings)]
    assert before == ["not trained yet", "not trained yet"]
    finish(base)
    policy = RlTraining.of(settings).planned
    assert [(stage.facts["run"], stage.facts["state"]) for stage in plan(settings)] == [
        (base.id, "finished"), (policy.id, "not trained yet"),
    ]  # fmt: skip
    finish(policy)
    assert plan(settings)[1].facts["state"] == "finished"
    other = config(tmp_path, "guide.name=branch", "guide.tau=0.1")
    assert plan(other)[1].facts["state"] == "not trained yet"


def test_a_finished_run_is_found_without_a_look_at_data_or_weights(tmp_path, monkeypatch):
    settings = config(tmp_path)
    finish(planned_base(settings, Runs(settings.run.root)).run)
    finish(RlTraining.of(settings).planned)

    def never(*_):
        raise AssertionError("the problems were loaded")

    monkeypatch.setattr("sage_cli.cli.training_run.training_problems", never)
    assert RlTraining.of(settings).carry_out(Silent()).id == RlTraining.of(settings).planned.id


def test_a_second_launch_leaves_a_run_that_is_being_trained_alone(tmp_path, any_tokenizer):
    settings = config(tmp_path, "rl.processes=2", "run.sweep=tau-rho-1")
    finish(planned_base(settings, Runs(settings.run.root)).run)
    run = RlTraining.of(settings).planned
    torn = run.checkpoints / "checkpoint-3"
    torn.mkdir(parents=True)  # as it is while it is being written
    with writer(run.folder), pytest.raises(StoreError, match="is being written by"):
        RlTraining.of(settings).carry_out(Silent())
    assert torn.is_dir()
    assert not (run.folder / "config.json").exists()


def test_a_launched_trial_is_its_sweeps(tmp_path, monkeypatch, any_tokenizer):
    settings = config(tmp_path, "rl.processes=2", "run.sweep=tau-rho-1")
    finish(planned_base(settings, Runs(settings.run.root)).run)
    run = RlTraining.of(settings).planned
    monkeypatch.setattr("sage_cli.training.launch.run_together", lambda *_: finish(run))
    assert RlTraining.of(settings).carry_out(Silent()).manifest["sweep"] == "tau-rho-1"


def test_a_base_with_other_weights_than_its_own_is_refused(tmp_path):
    settings = config(tmp_path)
    base = planned_base(settings, Runs(settings.run.root)).run
    finish(base)
    (base.model / "model.safetensors").write_text("others")
    with pytest.raises(StoreError, match="safetensors has been changed"):
        RlTraining.of(settings).carry_out(Silent())
    assert not RlTraining.of(settings).planned.folder.exists()


def test_adapters_under_zero_3_are_refused_before_anything_is_loaded(tmp_path, monkeypatch):
    said = {"LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    said |= {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="ZeRO stage 3 fails at the first step"):
        RlTraining.of(config(tmp_path, "model.tuning=lora")).carry_out(Silent())
    with pytest.raises(ConfigurationError, match="isn't trained yet"):  # the next obstacle
        RlTraining.of(config(tmp_path, "model.tuning=full")).carry_out(Silent())


def test_a_launcher_of_fsdp_2_takes_no_8_bit_optimizer(tmp_path, monkeypatch):
    said = {"LOCAL_RANK": "0", "WORLD_SIZE": "1", "ACCELERATE_USE_FSDP": "true"}
    for name, value in (said | {"FSDP_VERSION": "2"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="'adamw_8bit' can't update weights"):
        RlTraining.of(config(tmp_path, "rl.optimizer=adamw_8bit")).carry_out(Silent())
    with pytest.raises(ConfigurationError, match="isn't trained yet"):  # the next obstacle
        RlTraining.of(config(tmp_path, "rl.optimizer=adamw")).carry_out(Silent())


@pytest.mark.parametrize("measure", [False, True])
def test_an_engines_memory_ends_with_the_process_that_trains(
    tmp_path, monkeypatch, measure, any_tokenizer
):
    """What is measured afterwards needs the GPU that a colocated engine would still hold."""
    settings = config(tmp_path)
    finish(planned_base(settings, Runs(settings.run.root)).run)
    where = []
    monkeypatch.setattr("sage_cli.training.rollout_engine.is_colocated", lambda _: True)
    monkeypatch.setattr(f"{RL}.train_together", lambda *_: where.append("a process of its own"))
    monkeypatch.setattr(Policy, "tokenizer_facts", TokenizerFacts("<eos>", None, "scratch"))
    monkeypatch.setattr(f"{RL}.RlTraining.train_here", lambda *_: where.append("here"))
    monkeypatch.setattr(f"{RL}.RlTraining.measure", lambda *_: None)
    RlTraining.of(settings, measure=measure).carry_out(Silent())
    assert where == ["a process of its own" if measure else "here"]


def test_a_plan_says_how_many_completions_of_the_reference_are_sampled(tmp_path):
    """40 steps of 16 of 7,329 problems see each once: 640 problems, 8 completions of each."""
    settings = config(tmp_path, "anchor.kl=forward")
    facts = plan(settings)[1].facts
    assert facts["reference samples"] == "5,120 of 5,120 to sample, 8 of each of 640 problems"
    more = config(tmp_path, "anchor.kl=forward", "rl.steps=1000", "anchor.reference_samples=2")
    said = plan(more)[1].facts["reference samples"]
    assert said == "14,658 of 14,658 to sample, 2 of each of 7,329 problems"
    assert "reference samples" not in plan(config(tmp_path))[1].facts
    held = config(tmp_path, "rl.algo=dph-rl", "rl.initial_samples=4")
    assert "2,560 of 2,560 to sample, 4 of" in plan(held)[1].facts["reference samples"]
