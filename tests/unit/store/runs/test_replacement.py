"""Training anew beside a run that is there: whatever ends it, one whole run is left."""

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.lock import LAUNCHER, writer
from sage_cli.store.runs.replacement import current, settled, stage_replacement
from sage_cli.store.runs.run import Run, Runs


class KilledError(BaseException):
    pass


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


@pytest.fixture
def old(runs):
    """A finished run."""
    run = runs.at("rl", "a", "1" * 16)
    train(run, "old")
    return run


def train(run, weights):
    with run.recording({}, kind="rl"):
        run.model.mkdir(parents=True)
        (run.model / "weights").write_text(weights)


def weights(run):
    return (run.model / "weights").read_text()


def test_the_old_run_stays_until_the_new_one_is_finished(runs, old):
    new = stage_replacement(old)
    assert (new.id, new.identity) == (old.id, old.identity)
    assert current(old) == new
    with pytest.raises(KilledError), new.recording({}, kind="rl"):  # noqa: PT012
        assert (weights(old), old.finished, runs.latest()) == ("old", True, old)
        raise KilledError
    assert current(old) == new
    assert settled(old) == old
    train(new, "new")
    assert settled(new) == old
    assert (weights(old), current(old), runs.all()) == ("new", old, [old])
    assert [path.name for path in runs.root.iterdir() if path.name != ".staged"] == [old.id]
    assert list((runs.root / ".staged").iterdir()) == []


def test_a_fresh_start_forgets_an_earlier_one(old):
    train(stage_replacement(old), "half")
    assert not stage_replacement(old).model.exists()
    assert weights(old) == "old"


def test_where_there_is_nothing_to_keep_there_is_no_place_beside(runs):
    run = runs.at("rl", "a", "2" * 16)
    assert stage_replacement(run) == run
    (run.checkpoints / "checkpoint-3").mkdir(parents=True)  # of a run that noted nothing
    assert stage_replacement(run) == run
    assert not run.folder.exists()
    assert current(run) == run
    train(run, "first")
    assert settled(run) == run


@pytest.mark.parametrize("moment", range(1, 5))
def test_a_kill_at_any_moment_of_the_exchange_leaves_a_whole_run(old, monkeypatch, moment):
    """The exchange is two renames and a deletion; each is done or not when the kill comes."""
    new = stage_replacement(old)
    train(new, "new")
    done = 0

    def killing(action):
        def act(*arguments, **named):
            nonlocal done
            done += 1
            if done == moment:
                raise KilledError
            return action(*arguments, **named)

        return act

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.rename", killing(type(old.folder).rename))
        patched.setattr("shutil.rmtree", killing(__import__("shutil").rmtree))
        # the first deletion is of what an earlier kill may have left: nothing here
        with pytest.raises(KilledError):
            settled(new)
    found = current(old)
    assert (found, found.finished, weights(found)) == (old, True, "new")


@pytest.mark.parametrize("name", [".lock", LAUNCHER])
def test_a_run_that_is_being_written_is_neither_forgotten_nor_replaced(old, name):
    new = stage_replacement(old)
    with writer(new.folder, name), pytest.raises(StoreError, match="being written"):
        stage_replacement(old)
    train(new, "new")
    with writer(old.folder, name), pytest.raises(StoreError, match="being written"):
        settled(new)
    with writer(old.folder, name), pytest.raises(StoreError, match="being written"):
        stage_replacement(old)
    assert weights(old) == "old"


def test_in_the_working_directory_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(Runs(type(tmp_path)()).root / "rl-a-1")
    train(run, "old")
    new = stage_replacement(run)
    train(new, "new")
    assert settled(new) == run
    assert weights(run) == "new"


def test_removing_a_run_removes_what_was_begun_anew(runs, old):
    stage_replacement(old)
    runs.remove(old)
    assert not old.replacement.folder.exists()
    assert not old.folder.exists()
