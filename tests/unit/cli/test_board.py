"""A sweep's board in terminals of all widths, as rich draws it, and as lines without one."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from sage_cli.cli import live as module
from sage_cli.cli.live import Live
from sage_cli.progress import RunningTask, TaskStatus

RUNNING = (
    RunningTask("tau=0.465 rho=0.775 seed 0", 12, 40, 74, 900),
    RunningTask("tau=0.465 rho=1.0 seed 1"),
)
STATUS = TaskStatus(9, 4, 1, 0, RUNNING, "tau=0.3 rho=0.5: pass@1 0.451", 754)


def plain(text):
    """Without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]|\r", "", text)


def drawn(width, status=STATUS, height=30):
    """The lines that stay on a terminal."""
    file = io.StringIO()
    console = Console(width=width, height=height, force_terminal=True, file=file)
    with Live(console) as live:
        live.board(TaskStatus(9))
        live.board(status)
    return plain(file.getvalue().rpartition("\x1b[2K")[2]).rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_counts_rows_best_and_time_left_stand_on_lines_of_their_own(width):
    head, first, second, counts, best = drawn(width)
    assert max(map(len, (head, counts, first, second, best))) <= width
    # 4 done and 1 failed of 9 have ended; 754 s = 12 min 34 s
    assert head.split()[0] == "tasks"
    assert "5/9" in head
    assert "about 13 min left" in head
    assert re.search(r"tau=0.465 .* 12/40 +about 15 min left", first)
    assert second.startswith("tau=0.465 ")
    assert counts.strip() == "4/9 done, 2 running, 1 failed"
    assert best.strip() == "best tau=0.3 rho=0.5: pass@1 0.451"


def test_a_long_name_is_cut_and_more_tasks_than_lines_are_counted():
    row = drawn(60, replace(STATUS, running=(replace(RUNNING[0], name="x=1 " * 30),)))[1]
    assert len(row) <= 60
    assert "…" in row
    assert "12/40" in row
    many = tuple(replace(RUNNING[0], name=f"trial {place}") for place in range(50))
    lines = drawn(80, TaskStatus(60, running=many), height=20)
    # 20 lines less the 6 around them hold 14 of the 50
    assert len(lines) < 20
    assert lines[-1].strip() == "and 36 more"


def test_a_line_that_is_said_stays_above_the_board():
    file = io.StringIO()
    with Live(Console(width=80, force_terminal=True, file=file)) as live:
        live.board(STATUS)
        live.say("trial 3 failed: out of memory")
        live.board(STATUS)
    last = plain(file.getvalue())
    assert last.index("trial 3 failed") < last.rindex("4/9 done")


def spoken(monkeypatch, *moments):
    """The lines without a terminal; each moment is (seconds on the clock, status)."""
    file = io.StringIO()
    with Live(Console(width=60, file=file)) as live:
        for second, status in moments:
            monkeypatch.setattr(module.time, "monotonic", lambda second=second: second)
            live.board(status)
    return file.getvalue().splitlines()


def test_without_a_terminal_what_changes_is_said_at_most_every_20_seconds(monkeypatch):
    first = TaskStatus(3, running=RUNNING[:1])
    later = replace(first, running=(replace(RUNNING[0], step=13),))
    done = TaskStatus(3, 1, best="tau=0.465: pass@1 0.4", left_s=61)
    lines = spoken(monkeypatch, (100, first), (101, later), (102, done))
    assert lines == [
        "0/3 done, 1 running  tau=0.465 rho=0.775 seed 0 at step 12/40",
        "1/3 done, 0 running  best tau=0.465: pass@1 0.4  about 61 s left",
    ]
    moments = [(second, TaskStatus(3, 1)) for second in (100, 101, 119, 120, 121, 140)]
    # said at 100, 120 and 140
    assert len(spoken(monkeypatch, *moments)) == 3
