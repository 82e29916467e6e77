"""The live line and a sweep's board in terminals of all widths, and as lines without one."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from sage_cli.cli import live as live_module
from sage_cli.cli.live import Live, _rate
from sage_cli.progress import RunningTask, Silent, TaskStatus

NUMBERS = {"reward": 0.5, "kl": 0.01234, "q": 1.021, "entropy": 1.2345}


def terminal(width, **more):
    """A terminal whose `file` keeps what is written."""
    options = {"force_terminal": True, "color_system": "standard", **more}
    return Console(width=width, file=io.StringIO(), **options)


def plain(text):
    """Without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]|\r", "", text)


def left(console):
    """The lines that stay: what is written after the last erasure."""
    last = console.file.getvalue().rpartition("\x1b[2K")[2]
    return plain(last).rstrip("\n").split("\n")


def drawn(width, title="rl rl-dapo-branch-01234567", total=1000, done=8):
    console = terminal(width)
    with Live(console) as live:
        live.begin(title, total, "steps", done)
        for _ in range(5):
            live.advance(**NUMBERS)
    return left(console)


@pytest.mark.parametrize("width", [60, 80, 99, 100, 120])
@pytest.mark.parametrize(
    "title", ["sample base", "rl rl-dapo-branch-01234567", "sft sft-" + "knights-knaves-" * 5]
)
@pytest.mark.parametrize(("total", "done"), [(20, 4), (100, 8), (100_000, 99_000)])
def test_bar_count_and_time_left_never_vanish_or_wrap(width, title, total, done):
    line, numbers = drawn(width, title, total, done)
    assert max(len(line), len(numbers)) <= width
    assert line.startswith(title[:8])
    assert line.count("━") + line.count("╸") + line.count("╺") >= 12
    assert f"{done + 5}/{total}" in line
    assert re.search(r"about \d+ (s|min|h|d) left\s*$", line)
    assert ("steps/s" in line) == (width >= 100)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_time_left_is_told_once_a_twentieth_is_done(monkeypatch, is_terminal):
    """5 of 100 steps are 5%; of 100 steps of which 20 were done before, 4 of 80 are."""
    monkeypatch.setattr(live_module, "PLAIN_LINE_EVERY_S", -1.0)
    for before, sure in ((0, 5), (20, 4)):
        console = terminal(120, force_terminal=is_terminal)
        with Live(console) as live:
            live.begin("rl x", 100, "steps", before)
            for step in range(1, sure + 1):
                begin = console.file.tell()
                live.advance()
                live._bars and live._bars.refresh()
                told = "left" in plain(console.file.getvalue()[begin:])
                if before == 0 or not is_terminal:  # a bar's share counts what was done before
                    assert told is (step >= sure), (before, step)


def test_the_numbers_have_a_line_of_their_own_that_is_cut_at_its_end():
    assert drawn(60)[1] == "  reward 0.5  kl 0.01234  q 1.021  entropy 1.234"
    cut = drawn(40)[1]
    assert len(cut) <= 40
    assert cut.startswith("  reward 0.5  kl 0.01234")


def test_a_terminal_that_grows_narrow_is_followed():
    console = terminal(120)
    with Live(console) as live:
        live.begin("rl x", 20, "steps")
        console.width = 60
        before = console.file.tell()
        live.advance()
    lines = plain(console.file.getvalue()[before:]).splitlines()
    assert not any("steps/s" in line for line in lines)
    assert max(map(len, lines)) <= 60


class AtOnce:
    """A timer for whose time nobody has to wait."""

    daemon = False

    def __init__(self, _seconds, call, arguments):
        self.start = lambda: call(*arguments)

    def cancel(self):
        pass


def test_what_takes_long_is_said_without_a_terminal_as_it_is_written(monkeypatch):
    log = terminal(80, force_terminal=False)
    with Live(log) as live, live.doing("hashing weights"):
        live.say("inside")
    assert log.file.getvalue() == "inside\n"  # what is over at once is not said
    with Silent().doing("anything"):
        pass
    monkeypatch.setattr(live_module, "Timer", AtOnce)
    for console in (log, terminal(80)):
        with Live(console) as live:
            with live.doing("reading a[/b].jsonl"):
                pass
            live.say("done")
        assert "reading a[/b].jsonl" in plain(console.file.getvalue())
    assert plain(log.file.getvalue()) == "inside\nreading a[/b].jsonl ...\ndone\n"


@pytest.mark.parametrize("width", [60, 120])
def test_in_a_terminal_it_stands_there_until_it_is_over_or_a_bar_begins(width):
    console = terminal(width)
    with Live(console) as live:
        for text in ("loading weights", "starting the engine"):
            with live.doing(text):
                pass
        with live.doing("the first step"):
            live.begin("rl", 2, "steps")
            live.advance(reward=0.5)
            with live.doing("unheard beside a bar"):
                live.advance(reward=0.75)
    shown = plain(console.file.getvalue())
    for text in ("loading weights", "starting the engine", "the first step", "2/2"):
        assert text in shown
    assert "unheard" not in shown
    assert not any("the first step" in line for line in left(console))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data", "list"), "reading local copies ..."),
        (("data", "show", "arithmetic"), "reading arithmetic ..."),
        (("data", "overlap", "arithmetic", "arithmetic-dev"), "comparing arithmetic with"),
        (("rl", "--dry-run"), "planning ..."),
        (("suite", "plan", "demo"), "planning demo ..."),
        (("passk", "a.csv", "no.csv"), "reading files ..."),
    ],
)
def test_commands_that_may_take_long_say_what_they_do(sage, monkeypatch, words, said):
    monkeypatch.setattr(live_module, "Timer", AtOnce)
    assert said in sage(*words).words


RUNNING = (
    RunningTask("tau=0.465 rho=0.775 seed 0", 12, 40, 74, 900),
    RunningTask("tau=0.465 rho=1.0 seed 1"),
)
STATUS = TaskStatus(9, 4, 1, 0, RUNNING, "tau=0.3 rho=0.5: pass@1 0.451", 754)


def board_drawn(width, status=STATUS, height=30):
    console = terminal(width, height=height)
    with Live(console) as live:
        live.board(TaskStatus(9))
        live.board(status)
    return left(console)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_counts_rows_best_and_time_left_stand_on_lines_of_their_own(width):
    head, first, second, counts, best = board_drawn(width)
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
    row = board_drawn(60, replace(STATUS, running=(replace(RUNNING[0], name="x=1 " * 30),)))[1]
    assert len(row) <= 60
    assert "…" in row
    assert "12/40" in row
    many = tuple(replace(RUNNING[0], name=f"trial {place}") for place in range(50))
    lines = board_drawn(80, TaskStatus(60, running=many), height=20)
    # 20 lines less the 6 around them hold 14 of the 50
    assert len(lines) < 20
    assert lines[-1].strip() == "and 36 more"


def test_a_line_that_is_said_stays_above_the_board():
    console = terminal(80)
    with Live(console) as live:
        live.board(STATUS)
        live.say("trial 3 failed: out of memory")
        live.board(STATUS)
    last = plain(console.file.getvalue())
    assert last.index("trial 3 failed") < last.rindex("4/9 done")


def spoken(monkeypatch, *moments):
    """The lines without a terminal; each moment is (seconds on the clock, status)."""
    console = terminal(60, force_terminal=False)
    with Live(console) as live:
        for second, status in moments:
            monkeypatch.setattr(live_module.time, "monotonic", lambda second=second: second)
            live.board(status)
    return console.file.getvalue().splitlines()


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


@pytest.mark.parametrize(
    ("per_second", "text"), [(0.01234, "0.0123"), (45.61, "45.6"), (1170.4, "1,170")]
)
def test_a_rate_has_no_exponent(per_second, text):
    assert _rate(per_second) == text
