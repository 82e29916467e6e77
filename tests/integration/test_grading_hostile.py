"""Answers made to exhaust a grader: none is paid, and each keeps to its time and memory."""

import sys
import time
from pathlib import Path

import pytest

from sage_cli.grading import Grader

NOISE = 4
"""Time budgets are for a machine with nothing else to do; the best of this many tries counts."""
INSTANT, ALGEBRA = (0.05, 64), (3.0, 1024)
"""Seconds, and MiB that a worker may grow by: decided here, or by a worker."""


def boxed(answer):
    return rf"\boxed{{{answer}}}"


MATRIX = r"\\".join("&".join(f"x_{{{row}{column}}}" for column in range(8)) for row in range(8))
WAVES = "+".join(rf"\sin({n}x)\cos({n}y)\tan({n}z)" for n in range(1, 25))
ANSWERS = {
    "symbolic determinant": ("27", boxed(rf"\begin{{vmatrix}}{MATRIX}\end{{vmatrix}}"), INSTANT),
    "5,000 parentheses": ("27", boxed("(" * 5000 + "1" + ")" * 5000), INSTANT),
    "huge power of ten": ("27", boxed(r"1 \times 10^{999999999}"), INSTANT),
    "large expansion": ("(x+1)^2", boxed("(x+y+z+w+1)^{60}"), ALGEBRA),
    "factorial": ("27", boxed("1000000000!"), INSTANT),
    "sum of factorials": ("27", boxed(r"\sum_{n=1}^{100000} n!"), INSTANT),
    "16,000 terms": ("27", "1+" * 16000 + "x", INSTANT),
    "1,500 boxes after $$": ("27", "$$ " + boxed(1) + (" " + boxed(1)) * 1499, INSTANT),
    "8,000 brackets": ("27", r"\[ " * 8000, INSTANT),
    "code": ("27", '__import__("os").system("echo hi") 27', INSTANT),
    "16,000 numbers": ("27", "1 " * 16000, INSTANT),
    "200,000 spaces": ("27", " " * 200_000, INSTANT),
    "nothing": ("27", "", INSTANT),
    "100,000 digits": ("27", boxed("0." + "3" * 100_000), INSTANT),
    "trigonometry": (r"\sin(x)", boxed(WAVES), ALGEBRA),
    "factorials of factorials": ("27", boxed("(((9!)!)!)!"), INSTANT),
    "200 powers": ("27", boxed("x^{" * 200 + "x" + "}" * 200), INSTANT),
    "lone surrogate": ("27", boxed("\ud800"), INSTANT),
    "tower of floats": ("27", boxed("9.5^{9.5^{9.5^{9.5}}}"), INSTANT),
    "huge binomial": ("27", boxed(r"\binom{1000000000}{500000000}"), INSTANT),
    "tower of twos": ("27", boxed("2^{2^{33}}"), INSTANT),
    "tower for algebra": ("x^2+1", "x^{x^{" * 30 + "x" + "}}" * 30, ALGEBRA),
}
COMPLETIONS = {
    **{
        name: (gold, f"<SOLUTION>{answer}</SOLUTION>", budget)
        for name, (gold, answer, budget) in ANSWERS.items()
    },
    "no text at all": ("27", "", INSTANT),
    "8,000 opened tags": ("27", "<SOLUTION>" * 8000, INSTANT),
}


LATE = (r"\lfloor x+\sqrt{8} \rfloor", r"<SOLUTION>\lfloor x+2\sqrt{2} \rfloor</SOLUTION>")
"""A pair that only a worker judges."""


@pytest.fixture(scope="module")
def hurried():
    with Grader(workers=1, timeout_s=2) as hurried_grader:
        yield hurried_grader


@pytest.mark.parametrize("name", COMPLETIONS)
def test_a_hostile_completion_keeps_to_its_budget(hurried, name):
    gold, completion, (budget_s, budget_mb) = COMPLETIONS[name]
    if budget_s > 1:  # a worker's start is no part of a budget
        assert hurried.grade(*LATE).status == "right"
    idle = {worker.pid: resident_mb(worker.pid) for worker in hurried.pool._pool}
    spent = []
    while len(spent) < NOISE and min(spent, default=budget_s + 1) > budget_s:
        hurried._known.clear()
        began = time.perf_counter()
        grade = hurried.grade(gold, completion)
        spent.append(time.perf_counter() - began)
    assert grade.status in ("wrong", "unparseable", "timeout", "error")
    assert min(spent) <= budget_s
    assert all(
        resident_mb(worker.pid) - idle.get(worker.pid, 60) <= budget_mb
        for worker in hurried.pool._pool
    )
    assert hurried.grade("27", "<SOLUTION>27</SOLUTION>").status == "right"


def resident_mb(pid):
    """The peak of a worker's resident memory, 0 where it can't be read or the worker is gone."""
    if sys.platform != "linux" or not Path(f"/proc/{pid}").exists():
        return 0
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0)
