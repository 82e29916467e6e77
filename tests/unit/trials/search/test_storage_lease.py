"""A study in a database that several folders of runs name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict, replace

import optuna
import pytest

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.store.locks import Holder
from sage_cli.trials.search import storage
from sage_cli.trials.search.space import Space, Values
from sage_cli.trials.search.storage import DRIVER, Owner, owner_of, remove_studies
from sage_cli.trials.search.study import Study

SPACE = Space(parameters={"tau": Values(key="guide.tau", values=(1, 2))})
MINE = Owner("aa", "/mine/runs/sweeps/x", "recipe", "here")
THEIRS = Owner("bb", "/theirs/runs/sweeps/x", "recipe", "there")


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A database, and heartbeats that come often."""
    monkeypatch.setattr(storage, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(storage, "EXPIRY_S", 1.0)
    return f"sqlite:///{tmp_path}/studies.db"


def opened(url, owner):
    return closing(Study.open(url, "x", SPACE, "grid", 0, ["pass@1"], owner=owner))


def kept(url, study):
    return optuna.load_study(study_name=study.name, storage=url)


def test_a_second_folder_is_refused_and_told_whose_the_study_is(url):
    with opened(url, MINE) as study:
        study.propose()
        with pytest.raises(StoreError, match=f"process {os.getpid()} on .*, from /mine/runs"):
            opened(url, THEIRS)
        # its proposal still runs: nobody has closed it as a dead driver's
        assert [one.state for one in study.trials()] == ["running"]
    with opened(url, THEIRS) as study:  # at once
        assert study.before.folder == MINE.folder
        assert [one.state for one in study.trials()] == ["running"]
    with opened(url, THEIRS) as study:
        assert study.before is None


def test_studies_of_other_recipes_are_not_mixed(url):
    with opened(url, MINE):
        pass
    other = replace(THEIRS, config="another")
    with pytest.raises(ConfigurationError, match="of another sweep, that of /mine/runs"):
        opened(url, other)


def gone():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("host", ["this", "another"])
def test_a_driver_that_died_is_taken_over(url, host):
    with opened(url, THEIRS) as study:
        pass
    dead = replace(Holder.this_process(), pid=gone())
    if host == "another":
        dead = replace(dead, host="elsewhere", boot="of its own")
    kept(url, study).set_user_attr(DRIVER, asdict(replace(THEIRS, holder=dead)))
    with opened(url, MINE) as study:
        assert owner_of(kept(url, study)).mark == "aa"


def test_one_that_was_taken_over_writes_nothing_more(url):
    with opened(url, MINE) as study:
        proposal = study.propose()
        other = replace(THEIRS, holder=replace(Holder.this_process(), pid=1))
        until_s = time.monotonic() + 60
        while study.lease._taken_by is None and time.monotonic() < until_s:
            # a heartbeat that was under way may be written over it: takers look again
            kept(url, study).set_user_attr(DRIVER, asdict(other))
            time.sleep(0.3)
        for write in (study.propose, lambda: study.tell(proposal, [0.5])):
            with pytest.raises(StoreError, match="from /theirs/runs/sweeps/x"):
                write()
    assert owner_of(kept(url, study)).mark == "bb"  # which its end leaves alone


def test_a_folder_that_is_removed_leaves_the_studies_of_others(url):
    with opened(url, MINE) as study:
        pass
    assert [owner.folder for owner in remove_studies(url, "x", "bb")] == [MINE.folder]
    assert optuna.get_all_study_names(url) == [study.name]
    assert remove_studies(url, "x", "aa") == []
    assert optuna.get_all_study_names(url) == []


def test_a_journal_of_the_sweeps_own_needs_no_lease(tmp_path):
    with opened(tmp_path, MINE) as study:
        assert study.lease is None
