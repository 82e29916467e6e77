"""Grading what exact rules decide costs its caller next to nothing."""

import subprocess
import sys

SCRIPT = """
import sys, time
from sage_cli.grading import Grader, grade

began = time.process_time()
grader = Grader(judge="math", tolerance=0.01)
statuses = [grader.grade(gold, f"<SOLUTION>{answer}</SOLUTION>").status for gold, answer in [
    ("27", "x=27"), ("27", "28"), ("(3,4]", "[3,4]"), (r"7\\\\pi", r"8\\\\pi"), ("1.6", "1.615"),
]]
print(*statuses, grader.pool.pids, grade("27", "<SOLUTION>27</SOLUTION>").status)
print(time.process_time() - began)
heavy = {"torch", "transformers", "sympy", "math_verify", "numpy", "pydantic"}
print(*sorted(heavy & set(sys.modules)))
"""


def test_no_library_is_imported_and_setting_up_takes_milliseconds():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=True
    )
    said, seconds, imported = done.stdout.split("\n")[:3]
    assert said == "right wrong wrong wrong right [] right"
    assert float(seconds) < 0.05  # five milliseconds on an idle machine
    assert imported == ""
