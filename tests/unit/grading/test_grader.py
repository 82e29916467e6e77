"""Many completions: order, memory, bounds, and workers that may fail."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.grading import Grade, Grader, grade

SURD = (r"\sqrt{452}", r"<SOLUTION>2\sqrt{113}</SOLUTION>")  # equal, and only algebra can tell
ENDLESS = r"x^{x^{" * 30 + "x" + "}}" * 30


@pytest.fixture(scope="module")
def harmed():
    """A grader whose workers are stopped and killed here; each test finds it with one at least."""
    with Grader(workers=2, timeout_s=2) as grader:
        yield grader


@pytest.fixture
def running(harmed):
    """The grader to harm, with a worker that has just answered."""
    harmed._known.clear()
    assert harmed.grade(*SURD).status == "right"
    return harmed


def tagged(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"


def test_the_plain_function():
    assert grade("27", tagged("x=27")) == Grade("right", "x=27")
    assert grade("27", tagged("28")) == Grade("wrong", "28")
    assert grade("27", "27") == Grade("unparseable", None)
    assert grade(*SURD).status == "right"
    assert [grade("27", tagged(a)).reward for a in ("27", "28")] == [1.0, 0.0]


def test_grades_come_in_order_and_no_worker_starts_for_numbers():
    answers = [str(number % 7) for number in range(500)]
    with Grader() as grader:
        grades = grader.grade_many([("3", tagged(answer)) for answer in answers])
        assert grader.pool.pids == []
    assert [one.extracted for one in grades] == answers
    assert [one.status == "right" for one in grades] == [answer == "3" for answer in answers]


@pytest.mark.parametrize(
    ("gold", "completion", "expected"),
    [
        ("", tagged("27"), "error"),
        ("  ", tagged("27"), "error"),
        (None, tagged("27"), "error"),
        ("27", None, "unparseable"),
        ("27", 27, "unparseable"),
        ("27", b"<SOLUTION>27</SOLUTION>", "unparseable"),
        ("27", tagged(" \n "), "unparseable"),
        ("27", tagged("$$"), "unparseable"),
        ("27", tagged("27\0"), "wrong"),
        ("27", tagged("\ud800"), "wrong"),
        ("x+1", tagged("\ud800 x"), None),
        ("x+1", tagged("\0 x"), None),
        ("27", tagged("9" * 1_000_000), "unparseable"),
        ("27", "x" * 1_000_000 + tagged("27"), "right"),
        ("9" * 5000, tagged("27"), "error"),
        (27, tagged("27"), "right"),
        (27.0, tagged("27"), "right"),
        (0.5, tagged(r"\frac12"), "right"),
        (float("nan"), tagged("27"), "wrong"),
        (["27"], tagged("27"), "error"),
    ],
)
def test_bad_input_is_a_status(grader, gold, completion, expected):
    status = grader.grade(gold, completion).status
    assert status == expected if expected else status in ("wrong", "unparseable", "error")


def test_a_pair_is_judged_once_within_a_call_and_across_calls(monkeypatch):
    with Grader() as grader:
        judged = []
        quick = type(grader._judge).quick

        def counting(self, gold, answer, tolerance):
            judged.append(answer)
            return quick(self, gold, answer, tolerance)

        monkeypatch.setattr(type(grader._judge), "quick", counting)
        grader.grade_many([("3", tagged("3"))] * 50 + [("3", f"so {tagged('4')}")] * 50)
        grader.grade_many([("3", tagged("4"))])
    assert judged == ["3", "4"]


def test_the_memory_of_verdicts_is_bounded(monkeypatch):
    monkeypatch.setattr("sage_cli.grading.grader._REMEMBERED", 10)
    with Grader() as grader:
        grader.grade_many([("3", tagged(str(number))) for number in range(100)])
        assert len(grader._known) == 10


def test_a_bug_in_a_judge_is_an_error_and_not_a_wrong(monkeypatch):
    with Grader() as grader:
        monkeypatch.setattr(type(grader._judge), "quick", lambda *_: 1 / 0)
        assert grader.grade("3", tagged("3")).status == "error"


def test_time_is_bounded_and_the_next_grade_is_ordinary(running):
    pairs = [
        ("x^2+1", tagged(ENDLESS)),
        SURD,
        ("x^2+1", tagged("(x+1)^{10^{9}}")),
        ("x^2+1", tagged("((9!)!)!x")),
        ("x^2+1", tagged("9.5^{9.5^{9.5^{9.5}}}x")),
        SURD,
    ]
    began = time.monotonic()
    statuses = [one.status for one in running.grade_many(pairs)]
    # four of at most 3 s each on two workers, and workers to replace on a busy machine
    assert time.monotonic() - began < 60
    assert statuses[1] == statuses[5] == "right"
    assert set(statuses) - {"right"} <= {"timeout", "error", "wrong"}
    assert statuses[0] == "timeout"
    assert running.grade(r"\sqrt{8}", tagged(r"2\sqrt{2}")).status == "right"


def test_a_worker_that_ignores_its_alarm_is_killed(running):
    """As under gmpy2, whose arithmetic doesn't return to Python: the processes are stopped here."""
    stopped = running.pool.pids
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    assert running.grade(r"\sqrt{8}", tagged(r"2\sqrt{2}")).status == "timeout"
    assert set(stopped) - set(running.pool.pids)
    for pid in set(stopped) & set(running.pool.pids):
        os.kill(pid, signal.SIGCONT)
    assert running.grade(r"\sqrt{12}", tagged(r"2\sqrt{3}")).status == "right"


def test_a_worker_that_dies_is_replaced(running):
    for pid in running.pool.pids:
        os.kill(pid, signal.SIGKILL)
    statuses = [
        running.grade(rf"\sqrt{{{4 * n}}}", tagged(rf"2\sqrt{{{n}}}")).status for n in (2, 3, 5)
    ]
    assert set(statuses[:2]) <= {"right", "error"}  # at most one for each that was killed
    assert statuses[2] == "right"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_s_growth_is_bounded():
    with Grader(workers=1, timeout_s=1, memory_mb=200) as grader:
        grader.grade(*SURD)
        (pid,) = grader.pool.pids
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        limit = next(int(line.split()[3]) for line in lines if line.startswith("Max address"))
        assert limit / 2**20 <= memory_mb(pid, "VmSize") + 200
        grades = grader.grade_many(
            [("x^2+1", tagged("9^{9^{9^{9}}}x")), ("x^2+1", tagged("x^{10^{10^{10}}}"))]
        )
        assert "right" not in {one.status for one in grades}
        assert all(memory_mb(pid, "VmPeak") <= limit / 2**20 for pid in grader.pool.pids)


def memory_mb(pid, field):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def test_threads_share_a_grader(grader):
    found = {}

    def work(number):
        found[number] = grader.grade(rf"\sqrt{{{4 * number}}}", tagged(rf"2\sqrt{{{number}}}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in (5, 6, 7, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.status for one in found.values()} == {"right"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_its_parent_s_workers_alone(running):
    pids = running.pool.pids
    child = os.fork()
    if child == 0:
        right = running.grade(r"\sqrt{8}", tagged(r"2\sqrt{2}")).status == "right"
        own = not set(running.pool.pids) & set(pids)
        running.close()
        os._exit(0 if right and own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert running.grade(r"\sqrt{12}", tagged(r"2\sqrt{3}")).status == "right"
    assert running.pool.pids == pids


def test_workers_end_with_the_grader(running):
    pids = running.pool.pids
    assert pids
    running.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("interpreter", ["/bin/false", "/nowhere/python"])
def test_workers_that_cannot_start_are_errors(monkeypatch, interpreter):
    monkeypatch.setattr(sys, "executable", interpreter)
    with Grader(workers=1, timeout_s=60) as grader:
        assert grader.grade(*SURD).status == "error"


def test_a_tolerance_is_relative_and_off_by_default(grader):
    # 1.6: one per cent is 0.016
    answers = ["1.6", "1.615", "1.617", "1.585", "1.583"]
    pairs = [("1.6", tagged(answer)) for answer in answers]
    with Grader(tolerance=0.01) as tolerant:
        found = [one.status == "right" for one in tolerant.grade_many(pairs)]
        assert found == [True, True, False, True, False]
        assert tolerant.grade("1e-8", tagged("0")).status == "wrong"
        assert tolerant.grade("np.arcsin(10/13)", tagged("0.878")).status == "right"
    assert [one.status == "right" for one in grader.grade_many(pairs)] == [True] + 4 * [False]


def test_math_verify_mode_is_the_plain_recipe():
    with Grader(workers=2, mode="math-verify", timeout_s=60) as plain:
        grades = plain.grade_many(
            [
                ("27", tagged("27")),
                ("27", tagged("28")),
                ("27", tagged("0=27")),  # paid by the recipe, refused by strict
                ("4t", tagged("4")),  # the unit stripper's t
                ("27", "27"),
                (r"\sqrt{2}", tagged(r"\frac{2}{\sqrt{2}}")),
            ]
        )
    statuses = [one.status for one in grades]
    assert statuses == ["right", "wrong", "right", "right", "unparseable", "right"]


def test_settings_that_do_not_exist():
    with pytest.raises(ConfigurationError, match="no judge is called 'maths'"):
        Grader(judge="maths")
    with pytest.raises(ConfigurationError, match="no grading mode is called 'loose'"):
        Grader(mode="loose")
