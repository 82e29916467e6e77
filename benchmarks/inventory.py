"""How long it takes to know what a sample set holds, and to count its grades.

    python benchmarks/inventory.py [--parts 10000] [--rows 512]

Writes a set of `parts` files with `rows` samples each and lists it twice: with every part read
(no index yet), and from the index as a fresh process would. Then every sample gets a grade, and
these are counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.sample_parts import write_part
from sage_cli.store.sample_set import SampleIdentity, SampleSet

SAMPLES = 256
STATUSES = ("right", "wrong", "wrong", "unparseable")


def timed(title: str, work: Callable[[], Any]) -> Any:
    """Do it, print how long it took, and give what it gave."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    done = work()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    print(f"{title:42s} {wall_s:8.2f} s wall {cpu_s:8.2f} s cpu")
    return done


def fill(samples: SampleSet, parts: int, rows: int) -> list[str]:
    """Write the parts; 256 samples a problem, in the order of problems."""
    for part in range(parts):
        numbers = range(part * rows, (part + 1) * rows)
        drawn = [
            Completion(f"p{i // SAMPLES}", i % SAMPLES, 0, f"answer {i}", 5, "stop")
            for i in numbers
        ]
        write_part(samples.folder, f"{0:08x}", part, drawn, {})
    return [f"p{i}" for i in range((parts * rows + SAMPLES - 1) // SAMPLES)]


def grade(grades: GradeStore, problem_ids: list[str]) -> None:
    """Give every sample a grade."""
    for rows in grades.missing(problem_ids, SAMPLES):
        grades.add([(row, STATUSES[row.index % 4], row.text[-6:]) for row in rows])
    grades.flush()


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=512)
    given = parser.parse_args()
    identity = SampleIdentity("model", "template", {}, 0)
    with tempfile.TemporaryDirectory() as folder:
        samples = SampleSet(Path(folder), identity)
        problem_ids = fill(samples, given.parts, given.rows)
        print(f"{given.parts} parts of {given.rows} samples")
        timed("inventory, every part read", samples.inventory)
        fresh = SampleSet(Path(folder), identity)
        inventory = timed("inventory, from the index", fresh.inventory)
        missing = inventory.count_missing(problem_ids, SAMPLES)
        print(f"{missing} of {len(problem_ids) * SAMPLES} samples are missing")
        timed(
            "grades given (every text read)",
            lambda: grade(GradeStore(samples, {"mode": "none"}), problem_ids),
        )
        grades = timed("grades loaded", lambda: GradeStore(fresh, {"mode": "none"}))
        tally = timed("grades counted", lambda: grades.tally(problem_ids, SAMPLES))
        print(f"{tally.right_P.sum()} right, {tally.lacking} without a grade")


if __name__ == "__main__":
    main()
