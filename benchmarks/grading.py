"""Throughput of grading beside the plain Math-Verify call, in one process and run.

    python benchmarks/grading.py $SAGE_DATA/completions/math_real_completions.jsonl

The file has one object a line: `gold`, `completions` (answers in \\boxed{}), `recorded_correct`.
Set (a) is the file; set (b) draws 256 samples of each problem from its completions, with a text of
its own in front of each, as a pass@256 evaluation has. Both graders begin with empty memories.

`--against CHECKOUT` compares with another version of sage, in turns: processor seconds of a
process and of its worker, once that has started.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify

from sage_cli.grading import Grader
from sage_cli.grading.mathematics import expression, notation, numbers, structure

Pairs = list[tuple[str, str]]
CACHES = (
    notation.normalise,
    numbers.read_number,
    structure.read_structure,
    expression.read_expression,
)


def plain(pairs: Pairs) -> list[bool]:
    """The call that the field's scripts make."""
    return [verify(parse(gold), parse(completion)) for gold, completion in pairs]


def sage(pairs: Pairs) -> list[bool]:
    """A grader that has seen nothing."""
    for cached in CACHES:
        cached.cache_clear()
    with Grader(workers=2, extract="boxed") as grader:
        return [grade.status == "right" for grade in grader.grade_many(pairs)]


def timed(grade: Callable[[Pairs], list[bool]], pairs: Pairs) -> tuple[float, list[bool]]:
    """Seconds and grades."""
    gc.collect()
    began = time.perf_counter()
    grades = grade(pairs)
    return time.perf_counter() - began, grades


PROCESS = """
import json, sys, time
from sage_cli.grading import Grader
with Grader(workers=1, extract="boxed") as grader:
    grader.grade_many([("x+1", r"\\boxed{\\sin(x)+y}"), ("2", r"\\boxed{\\frac{4}{2}+0}")])
    ran = lambda pid: int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9
    spent = lambda: time.process_time() + sum(map(ran, grader.pool.pids))
    for pairs in json.load(sys.stdin):
        began = spent()
        grader.grade_many(pairs)
        print(spent() - began)
"""


def compared(checkout: Path, sets: dict[str, Pairs], repeats: int) -> None:
    """Print the least processor seconds of the other version over ours, a line for each set."""
    trees, text = (Path(__file__).parents[1], checkout.resolve()), json.dumps([*sets.values()])
    seconds: dict[Path, list[list[float]]] = {tree: [] for tree in trees}
    for number in range(repeats):
        for tree in trees if number % 2 else trees[::-1]:
            answer = subprocess.run(
                [sys.executable, "-c", PROCESS],
                input=text,
                env={**os.environ, "PYTHONPATH": str(tree)},
                capture_output=True,
                text=True,
                check=True,
            )
            seconds[tree].append([float(line) for line in answer.stdout.split()])
    least = [[min(column) for column in zip(*seconds[tree], strict=True)] for tree in trees]
    for name, ours, theirs in zip(sets, *least, strict=True):
        print(
            f"{name}: {theirs:.4f} s of {checkout} over {ours:.4f} s of ours: {theirs / ours:.2f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("completions", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.completions.read_text().splitlines()]
    draw = random.Random(0)
    real: list[tuple[str, str, bool]] = []
    many: list[tuple[str, str, bool]] = []
    for row in rows:
        graded = list(zip(row["completions"], row["recorded_correct"], strict=True))
        real += [(row["gold"], text, right) for text, right in graded]
        for number, (text, right) in enumerate(draw.choices(graded, k=arguments.samples)):
            many.append((row["gold"], f"Attempt {number}. {text}", right))
    print(f"{platform.machine()}, Python {platform.python_version()}, {arguments.repeats} repeats")
    sets = {"(a) real completions": real, f"(b) pass@{arguments.samples}": many}
    if arguments.against:
        pairs = {name: [(gold, text) for gold, text, _ in set_] for name, set_ in sets.items()}
        compared(arguments.against, pairs, arguments.repeats)
        return
    for name, set_ in sets.items():
        report(name, set_, arguments.repeats)


def report(name: str, set_: list[tuple[str, str, bool]], repeats: int) -> None:
    """Print one line: completions a second of both, their ratio, agreement with the record."""
    pairs = [(gold, text) for gold, text, _ in set_]
    recorded = [right for _, _, right in set_]
    ratios, rates = [], []
    for _ in range(repeats):
        ours_s, ours = timed(sage, pairs)
        plain_s, theirs = timed(plain, pairs)
        ratios.append(plain_s / ours_s)
        rates.append((len(pairs) / ours_s, len(pairs) / plain_s))
    agreements = [
        sum(a == b for a, b in zip(grades, recorded, strict=True)) / len(pairs)
        for grades in (ours, theirs)
    ]
    ours_rate, plain_rate = (statistics.median(column) for column in zip(*rates, strict=True))
    print(
        f"{name}: {len(pairs)} completions; sage {ours_rate:,.0f}/s, plain {plain_rate:,.0f}/s, "
        f"ratio {statistics.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f}); "
        f"agreement with the record: sage {agreements[0]:.2%}, plain {agreements[1]:.2%}"
    )


if __name__ == "__main__":
    main()
