"""Grading of published rows, and where training happens.

The golds that we ship are the published ones, and so are the grades. Trainings grade under torch,
from a thread, below a launcher, in a daemon.
"""

import json
import subprocess
import sys

import pytest

from sage_cli.grading import Grader
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import AnswerTags, extract

WRONG_RECORDS = [58 * 8 + 7, *range(62 * 8, 63 * 8)]
"""Right answers that the record refuses: 10000 for 10{,}000, 4:30 \\text{ p.m.} eight times."""


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answer(row):
    return row["answer"]


def boxed(row):
    return (extract(row["solution"], AnswerTags(), "boxed") or "").strip()


def after_hashes(row):
    return row["answer"].rpartition("####")[2].strip().replace(",", "")


FILES = {
    "aime24": (["aime2024"], answer),
    "aime25": (["aime2025-I", "aime2025-II"], answer),
    "amc23": (["amc23"], answer),
    "math500": (["math500"], answer),
    "minerva": (["minerva_math"], boxed),
    "gsm8k": (["gsm8k_test"], after_hashes),
}


@pytest.mark.parametrize("name", FILES)
def test_the_golds_that_tests_read_are_the_published_ones(shared, facts, name):
    files, gold_of = FILES[name]
    shipped = json.loads((facts / f"golds/{name}.json").read_text(encoding="utf-8"))["golds"]
    published = [row for file in files for row in rows(shared / f"data/benchmarks/{file}.jsonl")]
    assert [gold_of(row) for row in published] == shipped


def test_real_completions_agree_with_the_record(shared):
    pairs, recorded = [], []
    for problem in rows(shared / "data/completions/math_real_completions.jsonl"):
        pairs += [(problem["gold"], completion) for completion in problem["completions"]]
        recorded += problem["recorded_correct"]
    assert len(pairs) == 560
    with Grader(boxed=True) as grader:
        grades = grader.grade_many(pairs)
    differing = [
        number
        for number, (grade, right) in enumerate(zip(grades, recorded, strict=True))
        if (grade.status == "right") != right
    ]
    assert {grade.status for grade in grades} <= {"right", "wrong"}
    assert differing == WRONG_RECORDS


def test_knights_and_knaves(shared):
    golds = [
        row["solution_text"] for row in rows(shared / "data/benchmarks/knights_and_knaves.jsonl")
    ]
    assert check_golds([(gold, gold) for gold in golds], judge="roles") == []
    swapped = [
        gold.replace("knight", "?").replace("knave", "knight").replace("?", "knave")
        for gold in golds
    ]
    with Grader(judge="roles") as roles:
        pairs = [(g, f"<SOLUTION>{s}</SOLUTION>") for g, s in zip(golds, swapped, strict=True)]
        assert {grade.status for grade in roles.grade_many(pairs)} == {"wrong"}


SCRIPT = r"""
import multiprocessing, threading
import torch
from sage_cli.grading import Grader, grade

torch.ones(2).sum()
found = []

def work():
    with Grader(workers=2, timeout_s=60) as grader:
        surds = [(r"\sqrt{%d}" % (4 * n), r"2\sqrt{%d}" % n) for n in (2, 3, 5)]
        pairs = [(gold, "<SOLUTION>" + surd + "</SOLUTION>") for gold, surd in surds]
        found.extend(one.status for one in grader.grade_many(pairs))

thread = threading.Thread(target=work)
thread.start()
thread.join()
print("thread", *found, flush=True)

def in_daemon():
    print("daemon", grade(r"\sqrt{8}", r"<SOLUTION>2\sqrt{2}</SOLUTION>").status, flush=True)

daemon = multiprocessing.get_context("fork").Process(target=in_daemon, daemon=True)
daemon.start()
daemon.join()
"""


@pytest.mark.slow
def test_a_launched_script_without_a_main_guard(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
    done = subprocess.run(
        [*launcher, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["thread right right right", "daemon right"]
