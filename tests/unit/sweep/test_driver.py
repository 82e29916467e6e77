"""The driver: what it asks of the study, and when."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.executors.executor import Command, Resources
from sage_cli.executors.local import LocalExecutor
from sage_cli.metrics import Counts
from sage_cli.progress import Silent
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.sweep.cells import Training
from sage_cli.sweep.driver import Driver
from sage_cli.sweep.folder import SweepFolder
from sage_cli.sweep.space import Parameter, Space, Values
from sage_cli.sweep.stored import StoredSweep
from sage_cli.sweep.study import Study
from sage_cli.sweep.sweep_progress import SweepProgress
from sage_cli.sweep.works import TrialTask
from sage_cli.trials.queue import TaskQueue
from sage_cli.trials.task import Task

SPACE = Space((Parameter("tau", "guide.tau", Values((0.1, 0.2))),))


FAILS: dict[float, tuple[int, str]] = {}
"""Exit code and last words of trainings that fail, by their cell's tau."""


class Touch(TrialTask):
    """A training that is a file; it takes half a second, or hours where there is a file `slow`."""

    def command(self, file: Path, log: Path) -> Command:
        seconds = 9999 if Path(f"{self.run.folder}.slow").exists() else 0.5
        line = f"import sys, time; time.sleep({seconds}); open(sys.argv[1], 'w').close()"
        if (why := FAILS.get(self.training.cell["guide.tau"])) is not None:
            line = f"import sys; print({why[1]!r}); sys.exit({why[0]})"
        command = (sys.executable, "-c", line, f"{self.run.folder}.done")
        return Command(self.name, command, log, self.resources)


class Works:
    """Works whose cells right one problem of two."""

    def __init__(self, folder):
        self.folder, self.config = folder, load().config

    config_of_cells = load().config

    def base_measurement(self):
        return Task("base", "base", (), self.config, lambda: True, Resources())

    def cell(self, cell, seed, proposal=None):
        name = f"tau-{cell['guide.tau']}-{seed}"
        run = Run(self.folder / name)

        def is_done():
            counts = Counts(["a", "b"], np.array([1, 1]), np.array([1, 0]))
            work.counts = {"some": counts} if Path(f"{run.folder}.done").exists() else None
            return work.counts is not None

        work = Touch(
            name, name, (), self.config, is_done, Resources(), run,
            training=Training(cell, seed, self.config_of_cells, None, run), proposal=proposal,
        )  # fmt: skip
        return work


class Impatient(SweepProgress):
    """Cancels the sweep when the first training is done."""

    def scored(self, work, values):
        super().scored(work, values)
        StoredSweep(self._folder.path).cancel()


@pytest.fixture
def drive(tmp_path, monkeypatch):
    """Drive a sweep of two cells with these settings; the driver."""
    monkeypatch.setattr("sage_cli.trials.queue.POLL_S", 0.02)

    def drive(study, kind=SweepProgress, lost=(), places=2, **settings):
        section = load().config.sweep.model_copy(update={"objective": ("pass@1",), **settings})
        folder = SweepFolder(tmp_path)
        folder.forget_cancel()
        progress = kind(Silent(), folder, {"objectives": ["pass@1"]}, 3)
        executor = LocalExecutor(places, grace_s=1)
        driver = Driver(section, study, Works(tmp_path), executor, folder, progress)
        driver.run(lost)
        return driver

    return drive


class Counted(Study):
    """A study that counts how often it is asked for a cell."""

    asked = 0

    def propose(self):
        self.asked += 1
        return super().propose()


@pytest.mark.parametrize(("trials", "asked", "cells"), [(None, 3, 2), (1, 1, 1)])
def test_a_study_that_has_no_more_is_not_asked_again(tmp_path, drive, trials, asked, cells):
    study = Counted.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"])
    drive(study, trials=trials)
    assert [one.values for one in study.proposals()] == [(0.5,)] * cells
    assert study.asked == asked


def test_what_a_cancelled_driver_leaves_is_counted_and_taken_up_by_the_next(tmp_path, drive):
    def found():
        study = Study.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"])
        return study, [(one.number, one.state) for one in study.proposals()]

    counts = lambda: json.loads((tmp_path / "state.json").read_text())["cells"]  # noqa: E731
    (tmp_path / "tau-0.2-0.slow").touch()
    driver = drive(found()[0], Impatient)
    assert driver.under_way == frozenset()
    # of three trainings that were to come one is done, one was ended, one never wanted
    assert counts() == {"done": 1, "failed": 0, "pruned": 0, "cancelled": 1, "left": 1}
    assert found()[1] == [(0, "done"), (1, "running")]  # as the study keeps it for the next
    (tmp_path / "tau-0.2-0.slow").unlink()
    drive(found()[0])
    assert found()[1] == [(0, "done"), (1, "done")]
    assert counts()["cancelled"] == 0


@pytest.mark.parametrize("when", ["at its last look", "unseen", "while it is ended"])
def test_a_training_that_comes_to_its_end_is_not_pruned(tmp_path, drive, monkeypatch, when):
    """Of 3 steps; the driver was busy, and hears of all looks at once."""
    run = Run(tmp_path / "tau-0.1-0")
    (tmp_path / "tau-0.1-0.slow").touch()
    for step in (1, 3) if when == "unseen" else (3,) if when == "at its last look" else (1,):
        run.metrics.append({"step": step, "eval/pass@1": 0.0})
    run.note(status="finished" if when == "unseen" else "running")
    steps = load(sets=["rl.steps=3"]).config
    monkeypatch.setattr(Works, "config_of_cells", steps)
    monkeypatch.setattr("sage_cli.sweep.driver.reason_to_prune", lambda *_: "it lags")
    cancel = TaskQueue.cancel

    def finishes(self, chosen):
        run.note(status="finished")
        (tmp_path / "tau-0.1-0.slow").unlink()
        return cancel(self, chosen)

    monkeypatch.setattr(TaskQueue, "cancel", finishes)
    enough = Driver._prune

    def looked(self):
        enough(self)
        if self._queue.running and when != "while it is ended":
            (tmp_path / "tau-0.1-0.done").touch()
            self._queue._executor.end(next(iter(self._queue._running)))

    monkeypatch.setattr(Driver, "_prune", looked)
    study = Study.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"])
    drive(study, prune="median", trials=1)
    assert run.manifest["status"] == ("running" if when == "at its last look" else "finished")
    assert [one.state for one in study.proposals()] == ["done"]


def test_trainings_that_the_store_lost_are_made_again_and_the_study_keeps_its_values(
    tmp_path, drive
):
    study = Study.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"])
    drive(study, seeds=2)
    before = study.proposals()
    (tmp_path / "tau-0.1-1.done").unlink()
    drive(study, seeds=2)  # which isn't told that something is lost
    assert not (tmp_path / "tau-0.1-1.done").exists()
    drive(study, seeds=2, lost=before[:1])
    assert (tmp_path / "tau-0.1-1.done").exists()
    assert study.proposals() == before


def test_a_cell_whose_settings_can_not_both_hold_is_said_and_counted(tmp_path, monkeypatch):
    """So that its trainings aren't left when the sweep ends."""

    def refuse(self, cell, seed, proposal=None):
        raise ConfigurationError("q_min is above q_max")

    lines: list[str] = []
    monkeypatch.setattr(Works, "cell", refuse)
    monkeypatch.setattr(Silent, "say", lambda _, text: lines.append(text))
    folder = SweepFolder(tmp_path)
    section = load().config.sweep.model_copy(update={"objective": ("pass@1",), "seeds": 2})
    progress = SweepProgress(Silent(), folder, {"objectives": ["pass@1"]}, 4)
    study = Study.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"])
    Driver(section, study, Works(tmp_path), LocalExecutor(2), folder, progress).run()
    cells = json.loads((tmp_path / "state.json").read_text())["cells"]
    assert cells == {"done": 0, "failed": 4, "pruned": 0, "cancelled": 0, "left": 0}
    assert "[red]refused[/]: tau 0.1: q_min is above q_max" in lines


def test_all_trainings_of_a_pruned_cell_count_as_pruned(tmp_path, drive, monkeypatch):
    for seed in (0, 1):
        (tmp_path / f"tau-0.1-{seed}.slow").touch()
    MetricsFile(tmp_path / "tau-0.1-0" / "metrics.jsonl").append({"step": 1, "eval/pass@1": 0.0})
    monkeypatch.setattr("sage_cli.sweep.driver.reason_to_prune", lambda *_: "it lags")
    drive(Study.open(tmp_path, "mine", SPACE, "grid", 0, ["pass@1"]), prune="median", seeds=2)
    # two cells of two trainings: both of one pruned, both of the other done
    cells = json.loads((tmp_path / "state.json").read_text())["cells"]
    assert cells == {"done": 2, "failed": 0, "pruned": 2, "cancelled": 0, "left": 0}


MANY = tuple(round(0.1 * place, 1) for place in range(1, 10))


def states(study):
    return {one.cell["guide.tau"]: str(one.state) for one in study.proposals()}


def test_failures_of_one_kind_in_a_row_stop_the_sweep_and_cost_nothing(
    tmp_path, drive, monkeypatch
):
    space = Space((Parameter("tau", "guide.tau", Values(MANY)),))

    def opened():
        return Study.open(tmp_path, "mine", space, "grid", 0, ["pass@1"])

    monkeypatch.setattr(
        sys.modules[__name__], "FAILS", dict.fromkeys(MANY[1:], (1, "the head is dead"))
    )
    settings = {"stop_after": 3, "retries": 0, "trials": 9, "places": 1}
    study = opened()
    driver = drive(study, **settings)
    assert (driver.stopped_by.kind, driver.stopped_by.reason) == ("error", "the head is dead")
    assert states(study) == {0.1: "done"}
    monkeypatch.setattr(sys.modules[__name__], "FAILS", {0.9: (1, "its own")})
    study = opened()
    assert study.failed == []  # nothing is burnt
    order = []
    begin = Study.propose
    monkeypatch.setattr(Study, "propose", lambda self: order.append(one := begin(self)) or one)
    assert drive(study, **settings).stopped_by is None
    assert states(study) == {tau: "failed" if tau == 0.9 else "done" for tau in MANY}
    # what nobody tried came first
    first = [one.cell["guide.tau"] for one in order if one is not None]
    assert first[-3:] == [0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("fails", "stop_after"),
    [
        ({0.1: (1, "x"), 0.2: (2, "y"), 0.3: (1, "x"), 0.4: (2, "y")}, 2),  # of two kinds
        ({0.1: (1, "x"), 0.3: (1, "x"), 0.5: (1, "x")}, 2),  # not in a row
        (dict.fromkeys(MANY, (1, "out of memory")), 2),  # the cells' own
        (dict.fromkeys(MANY, (1, "x")), None),
    ],
)
def test_other_failures_are_the_cells_own(tmp_path, drive, monkeypatch, fails, stop_after):
    monkeypatch.setattr(sys.modules[__name__], "FAILS", fails)
    space = Space((Parameter("tau", "guide.tau", Values(MANY)),))
    study = Study.open(tmp_path, "mine", space, "grid", 0, ["pass@1"])
    settings = {"stop_after": stop_after, "retries": 0}
    assert drive(study, places=1, **settings).stopped_by is None
    assert states(study) == {tau: "failed" if tau in fails else "done" for tau in MANY}
    assert [
        one.cell["guide.tau"]
        for one in Study.open(tmp_path, "mine", space, "grid", 0, ["pass@1"]).failed
    ] == list(fails)  # which the next driver tries first
