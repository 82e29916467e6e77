"""The base that comes with sage serves exactly where it was trained, as a run like any other."""

import os
import shutil
import threading

import pytest

from sage_cli.config.load import load
from sage_cli.errors import StoreError
from sage_cli.models.facts import state
from sage_cli.models.planned import planned_base, rl_run, sft_run
from sage_cli.models.policy import Policy, named_run
from sage_cli.models.shipped_base import (
    put_in_place,
    shipped_run,
    shipped_source,
    why_not_shipped,
)
from sage_cli.progress import Silent
from sage_cli.store.run import Run, Runs
from sage_cli.training.run import InitialPolicy, RlTraining, SftTraining
from sage_cli.trials.suites.plan import Overrides, prepare_suite


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def config(*sets, root="runs"):
    return load(sets=[*sets, f"run.root={root}"]).config


def base_of(runs, *sets):
    return planned_base(config(*sets), runs).run


def test_the_preset_starts_from_the_shipped_base_whose_files_are_what_it_ended_with(runs):
    run = base_of(runs)
    source = shipped_source(run)
    manifest = source.read_manifest()
    assert run.id.startswith("sft-arithmetic-")
    assert (manifest["origin"], manifest["command"], manifest["seed"]) == ("shipped", "sage sft", 0)
    assert manifest["trained_as"] == sft_run(config(), runs).read_identity() != run.read_identity()
    assert source.changed("config.json", "metrics.jsonl", "model") == []
    assert manifest["weights"] == Policy.of_run(source).fingerprint
    assert len(source.metrics.read()) == source.read_config()["sft"]["steps"]
    assert not runs.root.exists()  # a plan writes nothing
    assert state(run) == "comes with sage"


@pytest.mark.parametrize(
    ("setting", "serves"),
    [
        *(
            (setting, True)
            for setting in (
                "rl.steps=2",
                "guide.name=branch",
                "sft.save_every=3",
                "model.tuning=lora",
                "sampling.temperature=0.2",
                "data.rl.limit=5",
            )
        ),
        *(
            (setting, False)
            for setting in (
                "sft.steps=2",
                "sft.seed=1",
                "sft.learning_rate=0.1",
                "model.hidden=32",
                "model.seed=4",
                "prompt.answer_open=<A>",
                "data.sft.limit=64",
                "data.arithmetic.seed=2",
                "data.arithmetic.validation=50",
                "sft.shipped=false",
            )
        ),
    ],
)
def test_any_change_of_what_made_it_trains_one_and_names_the_setting(runs, setting, serves):
    settings = config(setting)
    run = planned_base(settings, runs).run
    assert (shipped_source(run) is not None) is serves
    if not serves:
        assert run == sft_run(settings, runs)
        assert setting.partition("=")[0] in why_not_shipped(settings)


def test_nothing_is_said_of_models_that_none_is_shipped_of():
    theirs = ("model.kind=pretrained", "model.path=a/b")
    assert why_not_shipped(config(*theirs)) is None
    assert why_not_shipped(config("sft.enabled=false")) is None
    assert why_not_shipped(config()) is None


class Hears(Silent):
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def test_the_first_command_that_needs_it_finds_it_finished(runs, monkeypatch):
    monkeypatch.setattr(SftTraining, "execute", lambda *_: pytest.fail("it was trained"))
    settings, hears = config(root=runs.root), Hears()
    before = RlTraining.of(settings).planned.id
    started = InitialPolicy(settings).ensure_trained(hears)
    assert started.run.is_finished()
    assert started.fingerprint == started.run.read_manifest()["weights"]
    assert [run.id for run in runs.all()] == [started.run.id] == [runs.latest().id]
    assert "comes with sage" in hears.lines[0]
    # what it is called as a parent doesn't change by its being there
    named = RlTraining.of(settings, init=started.run.id).planned.id
    assert before == RlTraining.of(settings).planned.id == named
    assert runs.find("sft-arithmetic") == started.run
    assert InitialPolicy(settings).ensure_trained(hears).run == started.run


def test_one_that_was_removed_comes_again_and_one_that_was_changed_is_refused(runs):
    run = base_of(runs)
    put_in_place(run)
    runs.remove(Run(run.folder))
    put_in_place(run)
    (run.model / "model.safetensors").write_bytes(b"others")
    put_in_place(run)  # a run that is there is the user's
    with pytest.raises(StoreError, match="was changed after its run ended"):
        Policy.of_run(run).require_own()
    (run.model / "config.json").unlink()
    with pytest.raises(StoreError, match=r"model/config\.json is missing"):
        Policy.of_run(run).require_own()


def test_it_is_found_by_name_unless_a_run_here_is_meant(runs):
    with pytest.raises(StoreError, match="there is no run 'sft-other'"):
        named_run("sft-other", runs)
    assert not runs.root.exists()
    assert named_run("sft-arithmetic", runs) == base_of(runs)
    runs.remove(Run(base_of(runs).folder))
    trained = sft_run(config(), runs)
    with trained.recording({}, kind="sft"):
        pass
    assert named_run("sft-arithmetic", runs) == trained


def test_several_processes_may_put_it_in_place(runs):
    run = base_of(runs)
    threads = [threading.Thread(target=put_in_place, args=(run,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in runs.root.iterdir()] == [run.id]
    assert run.is_finished()


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_named(runs):
    runs.root.mkdir(mode=0o500)
    with pytest.raises(StoreError, match=str(runs.root)):
        put_in_place(base_of(runs))


def test_a_full_disk_leaves_nothing_behind(runs, monkeypatch):
    def full(source, target):
        shutil.os.makedirs(target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    run = base_of(runs)
    with pytest.raises(StoreError, match="full"):
        put_in_place(run)
    assert list(runs.root.iterdir()) == []


def test_sft_trains_one_of_another_run_hash(runs):
    settings = config(root=runs.root)
    ours = SftTraining.of(settings).planned
    assert ours != planned_base(settings, runs).run
    assert ours.id.startswith("sft-arithmetic-")
    children = [
        rl_run(settings, Policy.of_run(base), runs, 1).id
        for base in (ours, planned_base(settings, runs).run)
    ]
    assert len({*children}) == 2


def test_a_run_of_another_result_version_has_no_shipped_base(runs):
    assert shipped_run(runs.at("sft", "arithmetic", "0" * 64)) is None


def test_the_demo_trains_it_only_from_scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = {
        sets: [task.kind for task in prepare_suite("demo", Overrides(("tiny",), sets)).tasks]
        for sets in ((), ("sft.shipped=false",))
    }
    assert [kinds[sets].count("sft") for sets in kinds] == [0, 1]
    assert [kinds[sets].count("rl") for sets in kinds] == [2, 2]
