"""The W&B mirror, offline: read back from the file that `wandb sync` would upload."""

import os

import pytest
import wandb
from offline_wandb import read_offline

from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.mirrors import mirrors_of

OFFLINE = TrackingSection()


def test_one_directory_holds_everything_after_a_resumption_and_an_evaluation(
    run, train, resume_at, rollout
):
    train(run, (1, 2, 3), OFFLINE)
    offline = read_offline(run.folder)
    assert offline.of("loss") == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert offline.tables == {1: [rollout(1)], 3: [rollout(3)]}
    assert offline.config["rl"] == {"a": 1}
    assert (offline.group, offline.job) == ("tau-rho-1", "rl")
    resume_at(run, 2)
    train(run, (3, 4, 5), OFFLINE)
    offline = read_offline(run.folder)
    assert offline.of("loss") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)]
    assert offline.tables == {1: [rollout(1)], 3: [rollout(3)], 5: [rollout(5)]}
    figures = {"pass@1": 0.25, "pass@256": 0.75, "grading": "strict"}
    record_evaluation(run, "amc23", figures)
    for mirror in mirrors_of(OFFLINE, run):
        mirror.show_evaluations()
    shown = read_offline(run.folder)
    assert {f"eval/amc23/{name}": value for name, value in figures.items()} == {
        name: value for name, value in shown.summary.items() if name.startswith("eval/amc23/")
    }
    assert (shown.of("loss"), shown.tables) == (offline.of("loss"), offline.tables)


def test_nothing_is_left_at_home(run, train, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    train(run, (1,), OFFLINE)
    assert read_offline(run.folder).tables
    assert not [path for path in (tmp_path / "home").rglob("*") if "artifacts" in path.parts]
    assert "WANDB_DATA_DIR" not in os.environ


class Online:
    """W&B's online run, which holds steps 0 to 2 already."""

    starting_step = 3

    def __init__(self):
        self.steps, self.summary, self.finished = [], {}, False

    def log(self, _, step):
        self.steps.append(step)

    def finish(self):
        self.finished = True


@pytest.fixture
def started(monkeypatch):
    """What `wandb.init` was asked for, and the run that it gave."""
    asked, online = {}, Online()
    monkeypatch.setattr(wandb, "init", lambda **words: asked.update(words) or online)
    return asked, online


@pytest.fixture
def logged_in(monkeypatch):
    """W&B has a key."""
    monkeypatch.setattr(wandb, "login", lambda **words: not words["prompt"])


def test_online_the_run_is_resumed_and_only_what_is_new_is_sent(run, train, started, logged_in):
    asked, online = started
    (run.folder / "wandb").mkdir()
    record_evaluation(run, "aime", {"pass@1": 0.5})
    train(run, (1, 2), TrackingSection(wandb="off"))
    train(run, (3, 4), TrackingSection(wandb="online"))
    assert (asked["mode"], asked["resume"], asked["id"]) == ("online", "allow", run.id)
    assert online.steps == [3, 4]
    assert online.summary == {"eval/aime/pass@1": 0.5}
    assert online.finished
    assert (run.folder / "wandb").is_dir()


def test_online_steps_that_are_trained_again_are_named(run, train, started, logged_in, caplog):
    _, online = started
    train(run, (1, 2, 3), TrackingSection(wandb="online"))
    assert online.steps == [3]
    (said,) = caplog.messages
    assert "W&B keeps its values of steps 1 to 2" in said


def test_online_without_a_key_is_offline_and_nobody_is_asked_for_one(
    run, train, started, monkeypatch, caplog
):
    asked, _ = started
    monkeypatch.setattr(wandb, "login", lambda **words: words["prompt"])
    train(run, (1,), TrackingSection(wandb="online"))
    assert (asked["mode"], asked["resume"]) == ("offline", None)
    assert "W&B has no key" in caplog.text


@pytest.mark.parametrize("broken", ["init", "log", "finish"])
def test_whatever_wandb_does_training_goes_on(run, train, monkeypatch, caplog, broken):
    class Broken:
        starting_step = 0

        def log(self, *_, **__):
            if broken == "log":
                raise OSError("disk full")

        def finish(self):
            raise OSError("disk full")

    def init(**_):
        if broken == "init":
            raise wandb.errors.CommError("no service")
        return Broken()

    monkeypatch.setattr(wandb, "init", init)
    train(run, (1, 2, 3), OFFLINE)
    assert [record["step"] for record in run.metrics.read()] == [1, 2, 3]
    assert len(caplog.records) == 1  # said once, not at every step
    assert "metrics.jsonl is complete" in caplog.text


def test_a_run_that_was_given_up_is_not_handed_to_the_next(run, train, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr("sage_cli.store.mirrors.WandbMirror.close", lambda _: None)
        train(run, (1,), OFFLINE)  # W&B's run stays open
    other = type(run)(tmp_path / "other")
    with other.recording({"tracking": {"project": "sage", "group": None}}, kind="rl"):
        train(other, (2,), OFFLINE)
    assert read_offline(other.folder).of("loss") == [(2, 0.2)]
    assert read_offline(run.folder).of("loss") == [(1, 0.1)]


def test_off_starts_nothing(run, train, monkeypatch):
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("W&B was started"))
    train(run, (1,), TrackingSection(wandb="off"))
    assert not (run.folder / "wandb").exists()
