"""Facts of runs: read again where a file changed, and bounded; colours that stay."""

import shutil

import pytest
from shown_runs import stored_run

from sage_cli.errors import StoreError
from sage_cli.reports.figures import COLOURS
from sage_cli.view.stored_runs import Remembered, RunsRead, is_one_part, look_of


def test_a_record_that_is_added_is_seen(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    assert "reward" not in runs.all()[0].figures
    run.metrics.append({"step": 1, "reward": 0.5})
    assert runs.all()[0].figures["reward"] == 0.5


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path, monkeypatch):
    stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    before = runs.all()
    monkeypatch.setattr("sage_cli.view.stored_runs.RunFacts.listed", None)
    assert runs.all() == before


def test_for_a_page_that_is_written_at_once_they_are_read_once(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    still = RunsRead(tmp_path, once=True)
    assert len(still.all()) == 1
    stored_run(tmp_path, "two", "b")
    assert len(still.all()) == 1
    assert len(RunsRead(tmp_path).all()) == 2
    assert still.find(run.id).run.id == run.id


def test_a_run_that_is_removed_is_gone(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    assert len(runs.all()) == 1
    shutil.rmtree(run.folder)
    assert runs.all() == []
    with pytest.raises(StoreError, match="there is no run"):
        runs.find(run.id)


def test_an_absent_folder_has_no_runs(tmp_path):
    assert RunsRead(tmp_path / "nowhere").all() == []


def test_later_runs_do_not_change_colours(tmp_path):
    stored_run(tmp_path, "base", "a", kind="sft")
    runs = RunsRead(tmp_path)
    for number in range(len(COLOURS) + 1):
        stored_run(tmp_path, "x", f"{number + 1:x}")
        if number == 0:
            first = dict(runs.looks())
    looks = runs.looks()
    assert first.items() <= looks.items()
    assert looks["sft-base-aaaaaaaa"] == {"colour": None, "dash": 0}
    assert looks["rl-x-11111111"] == {"colour": 0, "dash": 0}
    # six colours, so the seventh training has the first one's with other dashes
    assert looks["rl-x-77777777"] == {"colour": 0, "dash": 1}


def test_a_checkpoint_has_its_runs_colour_with_other_dashes():
    looks = {"rl-x": {"colour": 2, "dash": 0}}
    assert look_of("rl-x", looks) == {"colour": 2, "dash": 0}
    assert look_of("rl-x@10", looks) == {"colour": 2, "dash": 4}  # 1 + 10 % 7
    assert look_of("unknown", looks) == {"colour": None, "dash": 0}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", ".hidden", "a\0", "a\\b/.."])
def test_what_is_not_one_part_of_a_path(name):
    assert not is_one_part(name)


def test_what_is_one():
    assert is_one_part("rl-dapo-1234abcd")


def test_a_result_is_made_once():
    made, kept = [], Remembered(10)
    for _ in range(3):
        assert kept.get("a", lambda: made.append(1) or "result") == "result"
    assert made == [1]


def test_the_sizes_of_what_is_kept_are_bounded():
    kept = Remembered(10, len)
    kept.get("a", lambda: "x" * 6)
    kept.get("b", lambda: "x" * 4)
    kept.get("a", lambda: "lost")  # a is the latest now
    kept.get("c", lambda: "x" * 4)  # 6 + 4 + 4 > 10, so b, the oldest, goes
    assert kept.get("a", lambda: "lost") == "x" * 6
    assert kept.get("b", lambda: "again") == "again"


def test_one_result_larger_than_the_room_is_kept_alone():
    kept = Remembered(10, len)
    kept.get("a", lambda: "x" * 6)
    assert kept.get("b", lambda: "x" * 50) == "x" * 50
    assert kept.get("b", lambda: "again") == "x" * 50
    assert kept.get("a", lambda: "again") == "again"
