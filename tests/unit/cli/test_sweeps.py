"""`sage sweep COMMAND` on folders as drivers leave them."""

import json
import multiprocessing
import socket
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sweep_cells import BOTH, GRID, MEMORY, PASS_1, at, done, keep_state, sweep_document

from sage_cli.config.load import load
from sage_cli.reports.provenance import Provenance
from sage_cli.store.json_files import write_json
from sage_cli.store.locks import driver
from sage_cli.trials.sweep.folder import SweepFolder
from sage_cli.trials.sweep.result import SweepTrial

TRIALS = (
    done(at(GRID, 0.8, 0.1), 1, -1.5),
    SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY),
    done(at(GRID, 1.2, 0.1), 2, 0.3),
    done(at(GRID, 1.2, 0.3), 3, 0.29),
)


def sweep_folder(root, name, trials=TRIALS, objectives=(PASS_1,), **report):
    """`root`/sweeps/`name` with its report, its state and its configuration.

    Without pictures, which nobody who lists or shows sweeps looks at.
    """
    folder = root / "sweeps" / name
    document = sweep_document(GRID, objectives, trials, Provenance(), **report)
    replace(document, figures=()).write(folder)
    keep_state(folder)
    config = load(["tiny"], {"guide": {"name": "branch"}, "sweep": {"study": name}}).config
    write_json(folder / "config.json", config.model_dump(mode="json"))
    return folder


@pytest.fixture
def folder(tmp_path):
    """One sweep, of which a trial failed."""
    return sweep_folder(tmp_path / "runs", "tau-rho-01234567")


@pytest.fixture
def sweeps(sage, tmp_path):
    """`sage sweep ...` on the folder of runs."""
    return lambda *words: sage("sweep", *words, "--runs", tmp_path / "runs")


def held(folder, ready, stop):
    with driver(folder, folder.name):
        ready.set()
        stop.wait(60)


@contextmanager
def driven(folder):
    """While another process holds the sweep, as its driver does."""
    fork = multiprocessing.get_context("fork")
    ready, stop = fork.Event(), fork.Event()
    process = fork.Process(target=held, args=(folder, ready, stop))
    process.start()
    assert ready.wait(60)
    try:
        yield f"process {process.pid} on {socket.gethostname()}, since"
    finally:
        stop.set()
        process.join()


def test_a_list_has_a_line_for_each_sweep(sweeps, tmp_path):
    assert "there are no sweeps yet; `sage sweep` runs one" in sweeps("list").words
    assert sweeps("list", "--json").answer == {"sweeps": []}
    for name in ("tau-rho-01234567", "other"):
        sweep_folder(tmp_path / "runs", name)
    typed = sweeps("list")
    assert "tau-rho-01234567 grid 3 1 0 2 tau 1.2, rho 0.1: pass@1 0.451" in typed.words
    assert "other" in typed.words
    names = [sweep["name"] for sweep in sweeps("list", "--json").answer["sweeps"]]
    assert set(names) == {"tau-rho-01234567", "other"}


def test_show_has_the_report_who_drives_and_the_logs_of_failures(sweeps, folder):
    typed = sweeps("show", "0123")
    shown = (
        "3 done, 1 failed, 0 pruned, 2 left; no process runs it at present",
        "failed: out of memory",
        "trial 2 failed; the last lines of its log: step 3 CUDA: no memory",
    )
    for said in shown:
        assert said in typed.words
    shown = sweeps("show", "0123", "--json").answer
    assert shown["sweep"]["driven_by"] is None
    assert [trial["state"] for trial in shown["report"]["trials"]].count("done") == 3
    with driven(folder) as who:
        assert f"run by {who}" in sweeps("show", "0123").words
    assert "no process runs it at present" in sweeps("show", "0123").words
    (folder / "sweep.json").unlink()
    assert "there is no report yet" in sweeps("show", "0123").words
    assert sweeps("show", "0123", "--json").answer["report"] is None


@pytest.mark.parametrize("began_here", [True, False])
def test_show_has_the_best_trials_commands_ready_to_be_pasted(sweeps, folder, began_here):
    sweep = SweepFolder(folder)
    run = sweep.result.trials[sweep.result.best("pass@1")].runs[0]
    file = folder / "tasks" / f"{run}.json"
    if began_here:
        file.parent.mkdir()
        file.touch()
    else:  # the trial was in the store before the sweep
        file = folder.parents[1] / run / "config.json"
    command = f"sage rl --config {file}"
    assert sweeps("show", "tau", "--json").answer["best"] == {"pass@1": command}
    assert f"best by pass@1: {command}" in sweeps("show", "tau").words


def test_each_objective_has_a_best_trial(sweeps, tmp_path):
    trials = [done(at(GRID, 0.8, 0.1), n, objectives=BOTH) for n in (1, 2)]
    sweep_folder(tmp_path / "runs", "both", trials, BOTH)
    best = sweeps("show", "both", "--json").answer["best"]
    assert list(best) == ["pass@1", "0.5*pass@1+0.5*pass@64"]
    sweep_folder(tmp_path / "runs", "none", TRIALS[1:2])
    assert sweeps("show", "none", "--json").answer["best"] == {}


def test_options_of_a_search_do_not_stand_before_a_command(sage, folder):
    typed = sage("sweep", "--space", "tau", "list")
    typed.refused("--space before 'list' has no effect")


def test_a_torn_report_and_a_mistyped_name_are_named(sweeps, folder, tmp_path):
    sweep_folder(tmp_path / "runs", "tau-rho-0a")
    sweeps("show", "tau-roh-01234567").refused("did you mean tau-rho-01234567?")
    sweeps("show", "tau-rho").refused("matches 2 sweeps")
    assert sweeps("show", str(folder)).code == 0
    (folder / "sweep.json").write_text('{"trials": [')
    assert "sweep.json is corrupt" in sweeps("show", "0123").words
    (folder / "sweep.json").write_text('{"trials": 3}')
    sweeps("show", "0123").refused("was written by another version of sage, or edited: KeyError")


def test_a_sweep_of_another_version_is_listed_and_said_to_be_of_one(sweeps, folder):
    """Its state counts cells, its settings know data that this version calls otherwise."""
    state = json.loads((folder / "state.json").read_text())
    del state["trials"]
    (folder / "state.json").write_text(json.dumps({**state, "cells": {"done": 9}}))
    listed = sweeps("list")
    assert listed.code == 0
    assert "–" in listed.words
    config = json.loads((folder / "config.json").read_text())
    config["data"] = {"arithmetic": {"development": 4}}
    (folder / "config.json").write_text(json.dumps(config))
    assert sweeps("show", "0123").code == 0
    (folder / "state.json").write_text("{")
    assert "remove it and type the same command again" in sweeps("list").words
