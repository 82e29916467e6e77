"""The driver: what it asks of the study and when, and whose fault a failure is."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.metrics import Counts
from sage_cli.progress import Silent
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.trials.executors.executor import Command, Resources
from sage_cli.trials.executors.local import LocalExecutor
from sage_cli.trials.failures import Failure, Kind
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.sweep.driver import _MEMORY_SETTINGS, Driver, changes_memory, is_own
from sage_cli.trials.sweep.folder import SweepFolder
from sage_cli.trials.sweep.space import Space, Values
from sage_cli.trials.sweep.study import Study
from sage_cli.trials.task import Task
from sage_cli.trials.trial import Replicate


def test_what_is_a_trials_own_lack_of_memory():
    lack = Failure(Kind.MEMORY, "no more")
    assert not is_own(lack, ["guide.tau", "rl.learning_rate", "rollout.temperature"])
    for key in ("rl.prompts_per_step", "rollout.max_tokens", "model.hidden", "sft.batch_size"):
        assert changes_memory([key])
        assert is_own(lack, ["guide.tau", key])
    configs = [load(sets=sets).config for sets in ([], ["rl.algo=dars"])]
    for key in _MEMORY_SETTINGS:
        section, name = key.split(".")
        assert any(hasattr(getattr(one, section), name) for one in configs), key


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (Kind.DIVERGED, True),
        (Kind.TIMEOUT, False),
        (Kind.KILLED, False),
        (Kind.ERROR, False),
        (Kind.REFUSED, False),
    ],
)
def test_of_the_others_divergence_alone_is_a_trials_own(kind, own):
    assert is_own(Failure(kind, "x"), ["rl.prompts_per_step"]) is own


def taus(*values):
    return Space(parameters={"tau": Values(key="guide.tau", values=values)})


SPACE, MANY = taus(0.1, 0.2), tuple(round(0.1 * place, 1) for place in range(1, 10))


FAILS: dict[float, tuple[int, str]] = {}
"""Exit code and last words of trainings that fail, by their trial's tau."""


class Touch(Task):
    """A training that is a file; it takes a moment, or hours where there is a file `slow`."""

    def command(self, file, log):
        seconds = 9999 if Path(f"{self.run.folder}.slow").exists() else 0.1
        line = f"import sys, time; time.sleep({seconds}); open(sys.argv[1], 'w').close()"
        if (why := FAILS.get(float(self.name.split("-")[1]))) is not None:
            line = f"import sys; print({why[1]!r}); sys.exit({why[0]})"
        command = (sys.executable, "-c", line, f"{self.run.folder}.done")
        return Command(self.name, command, log, self.resources)


class Lab:
    """A sweep whose trials are right about one problem of two."""

    def __init__(self, folder, total=2, **settings):
        self.folder, self.total, self.space = SweepFolder(folder), total, SPACE
        section = load().config.sweep
        self.settings = section.model_copy(update={"objective": ("pass@1",), **settings})

    config_of_trials = load().config

    def wanted(self, infeasible):
        return self.total + infeasible

    def facts(self, study):
        return {"objectives": ["pass@1"]}

    def initial_task(self):
        return Task("base", "base", (), self.config_of_trials, lambda: True, Resources())

    def trainings(self, point):
        return [self.training(point, seed) for seed in range(self.settings.seeds)]

    def training(self, point, seed):
        name = f"tau-{point['guide.tau']}-{seed}"
        run = Run(self.folder.path / name)

        def is_done():
            counts = Counts(["a", "b"], np.array([1, 1]), np.array([1, 0]))
            measured = {"some": (SimpleNamespace(counts=counts),)}
            task.measured = measured if Path(f"{run.folder}.done").exists() else None
            return task.measured is not None

        task = Touch(
            name,
            name,
            (),
            self.config_of_trials,
            is_done,
            Resources(),
            run,
            replicate=Replicate(name, seed, self.config_of_trials),
        )
        return task


@pytest.fixture
def opened(tmp_path):
    """Open the study anew, as another driver would."""

    def open_(space=SPACE, sampler="grid", kind=Study):
        return kind.open(tmp_path, "mine", space, sampler, 0, ["pass@1"])

    return open_


@pytest.fixture
def fails(monkeypatch):
    """Have trainings fail, by their trial's tau."""
    return lambda by_tau: monkeypatch.setattr(sys.modules[__name__], "FAILS", by_tau)


class Impatient(Driver):
    """Interrupts the sweep when the first training is done."""

    def write_state(self):
        super().write_state()
        if self.done_count:
            raise KeyboardInterrupt


@pytest.fixture
def drive(tmp_path, monkeypatch):
    """Drive a sweep with these settings; the driver."""
    monkeypatch.setattr("sage_cli.trials.queue.POLL_S", 0.02)

    def drive(study, kind=Driver, lost=(), places=2, total=3, **settings):
        sweep = Lab(tmp_path, total, **settings)
        driver = kind(sweep, study, LocalExecutor(places, grace_s=1), Silent(), lost)
        driver.run()
        return driver

    return drive


class Counted(Study):
    """A study that counts how often it is asked for a trial."""

    asked = 0

    def propose(self):
        self.asked += 1
        return super().propose()


@pytest.mark.parametrize(("trials", "asked", "done"), [(None, 3, 2), (1, 1, 1)])
def test_a_study_that_has_no_more_is_not_asked_again(opened, drive, trials, asked, done):
    study = opened(kind=Counted)
    drive(study, trials=trials)
    assert [one.values for one in study.trials()] == [(0.5,)] * done
    assert study.asked == asked


def test_what_an_interrupted_driver_leaves_is_taken_up_by_the_next(tmp_path, opened, drive):
    def found():
        return [(one.number, one.state) for one in opened().trials()]

    (tmp_path / "tau-0.2-0.slow").touch()
    with pytest.raises(KeyboardInterrupt):
        drive(opened(), Impatient)
    assert found() == [(0, "done"), (1, "running")]  # as the study keeps it for the next
    (tmp_path / "tau-0.2-0.slow").unlink()
    drive(opened())
    assert found() == [(0, "done"), (1, "done")]
    # three were wanted, and the grid has two
    assert json.loads((tmp_path / "state.json").read_text())["trials"]["left"] == 1


@pytest.mark.parametrize("when", ["at its last look", "unseen", "while it is ended"])
def test_a_training_that_comes_to_its_end_is_not_pruned(tmp_path, opened, drive, monkeypatch, when):
    """Of 3 steps; the driver was busy, and hears of all looks at once."""
    run = Run(tmp_path / "tau-0.1-0")
    (tmp_path / "tau-0.1-0.slow").touch()
    for step in (1, 3) if when == "unseen" else (3,) if when == "at its last look" else (1,):
        run.metrics.append({"step": step, "eval/pass@1": 0.0})
    run.note(status="finished" if when == "unseen" else "running")
    steps = load(sets=["rl.steps=3"]).config
    monkeypatch.setattr(Lab, "config_of_trials", steps)
    monkeypatch.setattr(Study, "should_prune", lambda *_: True)
    cancel = TaskQueue.cancel

    def finishes(self, chosen):
        run.note(status="finished")
        (tmp_path / "tau-0.1-0.slow").unlink()
        return cancel(self, chosen)

    monkeypatch.setattr(TaskQueue, "cancel", finishes)
    enough = Driver._end_pruned

    def looked(self):
        enough(self)
        if self._queue.running and when != "while it is ended":
            (tmp_path / "tau-0.1-0.done").touch()
            self._queue._executor.end(next(iter(self._queue._running)))

    monkeypatch.setattr(Driver, "_end_pruned", looked)
    study = opened()
    drive(study, prune="median", trials=1)
    assert run.read_manifest()["status"] == (
        "running" if when == "at its last look" else "finished"
    )
    assert [one.state for one in study.trials()] == ["done"]


def test_trainings_that_the_store_lost_are_made_again_and_the_study_keeps_its_values(
    tmp_path, opened, drive
):
    study = opened()
    drive(study, seeds=2)
    before = study.trials()
    (tmp_path / "tau-0.1-1.done").unlink()
    drive(study, seeds=2)  # which isn't told that something is lost
    assert not (tmp_path / "tau-0.1-1.done").exists()
    drive(study, seeds=2, lost=before[:1])
    assert (tmp_path / "tau-0.1-1.done").exists()
    assert study.trials() == before


def test_a_point_whose_settings_can_not_both_hold_is_said_and_counted(
    tmp_path, opened, drive, monkeypatch
):
    """So that its trial is not left when the sweep ends."""

    def refuse(self, point):
        raise ConfigurationError("q_min is above q_max")

    lines = []
    monkeypatch.setattr(Lab, "trainings", refuse)
    monkeypatch.setattr(Silent, "say", lambda _, text: lines.append(text))
    drive(opened(), total=2, seeds=2)
    trials = json.loads((tmp_path / "state.json").read_text())["trials"]
    assert trials == {"done": 0, "failed": 2, "pruned": 0, "left": 0}
    assert "[red]refused[/]: tau 0.1: q_min is above q_max" in lines


def test_state_counts_trials_and_not_their_replicates(tmp_path, opened, drive, monkeypatch):
    for seed in (0, 1):
        (tmp_path / f"tau-0.1-{seed}.slow").touch()
    MetricsFile(tmp_path / "tau-0.1-0" / "metrics.jsonl").append({"step": 1, "eval/pass@1": 0.0})
    monkeypatch.setattr(Study, "should_prune", lambda *_: True)
    study = opened()
    drive(study, prune="median", seeds=2, total=2)
    (pruned, _) = study.trials()
    assert pruned.attrs == {"reason": "by Optuna's rule median at step 1", "step": 1}
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["trials"] == {"done": 1, "failed": 0, "pruned": 1, "left": 0}
    assert state["best"] == "tau 0.2: pass@1 0.500"


def test_trials_count_points_and_not_their_replicates(tmp_path, opened, drive):
    study = opened(taus(0.1, 0.2, 0.3))
    drive(study, trials=2, seeds=2)
    assert len(study.trials()) == 2
    assert sorted(path.stem for path in tmp_path.glob("*.done")) == [
        "tau-0.1-0",
        "tau-0.1-1",
        "tau-0.2-0",
        "tau-0.2-1",
    ]


def states(study):
    return {one.point["guide.tau"]: str(one.state) for one in study.trials()}


def test_other_failures_leave_their_points_to_the_next_driver(opened, drive, fails):
    failing = {0.1: (1, "x"), 0.2: (2, "y"), 0.3: (1, "x")}
    fails(failing)
    study = opened(taus(*MANY))
    drive(study, places=1, retries=0)
    assert states(study) == {tau: "failed" if tau in failing else "done" for tau in MANY}
    again = opened(taus(*MANY))
    assert [trial.point["guide.tau"] for trial in again.failed] == list(failing)


@pytest.fixture
def diverging(monkeypatch):
    """Let a training that says so end as one that diverged, of which its run tells."""
    from sage_cli.trials import queue

    told = queue.failure

    def failure(end, manifest, log):
        why = told(end, manifest, log)
        return Failure(Kind.DIVERGED, "loss nan") if why.reason == "diverged" else why

    monkeypatch.setattr(queue, "failure", failure)


def test_diverged_trials_are_told_and_are_none_of_the_trials_that_count(
    tmp_path, opened, drive, fails, diverging
):
    """They do not come again, and a resumed driver agrees."""
    own = dict.fromkeys(MANY[::2], (1, "diverged"))  # 5 of 9
    fails(own)
    settings = {"retries": 0, "places": 1, "total": 4, "max_infeasible": 9}
    found = []
    for trials in (2, 4):
        drive(opened(taus(*MANY), "random"), trials=trials, **settings)
        found.append(states(opened(taus(*MANY), "random")))
    first, after = found
    assert list(first.values()).count("done") == 2
    assert "infeasible" in first.values()
    assert first.items() <= after.items()
    done = {tau: state for tau, state in after.items() if state == "done"}
    assert done == dict.fromkeys(MANY[1::2], "done")
    assert {state for tau, state in after.items() if tau in own} == {"infeasible"}
    count = json.loads((tmp_path / "state.json").read_text())["trials"]
    assert (count["done"], count["left"]) == (4, 0)
    assert count["failed"] == list(after.values()).count("infeasible")


def test_a_space_in_which_all_diverge_ends_whoever_drives(opened, drive, fails, diverging):
    fails(dict.fromkeys(MANY, (1, "diverged")))
    for most in (2, 2, 3):  # the second driver finds what the first stored
        study = opened(taus(*MANY), "random")
        drive(study, trials=5, retries=0, places=1, max_infeasible=most)
        assert list(states(study).values()) == ["infeasible"] * most


def test_a_lack_of_memory_is_a_trials_own_where_a_searched_setting_explains_it(
    opened, drive, fails, monkeypatch
):
    fails(dict.fromkeys(MANY, (1, "out of memory")))
    study = opened(taus(*MANY))
    drive(study, retries=0, places=1)
    assert set(states(study).values()) == {"failed"}
    keys = {"batch": "rl.prompts_per_step", "tau": "guide.tau"}
    monkeypatch.setattr(sys.modules[__name__], "SPACE", SimpleNamespace(keys=keys))
    drive(opened(taus(*MANY)), retries=0, places=1)
    assert "infeasible" in states(study).values()


def test_a_resumed_driver_reports_the_validations_that_the_study_lacks(
    tmp_path, opened, drive, monkeypatch
):
    """What an earlier driver reported is neither stored nor judged a second time."""
    run = Run(tmp_path / "tau-0.1-0")
    for step in (1, 2):
        run.metrics.append({"step": step, "eval/pass@1": step / 10})
    study = opened()
    study.report(study.propose(), 1, 0.1)
    reported = []
    report = Study.report
    monkeypatch.setattr(
        Study, "report", lambda self, *one: reported.append(one[1:]) or report(self, *one)
    )
    drive(opened(), prune="median", trials=1)
    assert reported == [(2, 0.2)]


@pytest.mark.parametrize(("right", "warnings"), [([0, 0], 1), ([0, 1], 0)])
def test_a_first_trial_without_a_right_sample_is_told_at_once(tmp_path, opened, right, warnings):
    lab, heard, lines = Lab(tmp_path), Silent(), []
    heard.say = lines.append
    shown = Driver(lab, opened(), LocalExecutor(1), heard)
    results = {"some": Counts(["a", "b"], np.array([1, 1]), np.array(right))}
    for _ in range(2):
        shown.scored(lab.training({"guide.tau": 0.1}, 0), results)
    said = "no sample of the first trial is correct on some"
    assert sum(said in line for line in lines) == warnings
