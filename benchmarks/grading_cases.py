"""Answers that people decided on: how many wrong ones are rewarded, how many correct ones refused.

    python benchmarks/grading_cases.py $SAGE_DATA/../grading/cases*.jsonl

A file has one case a line: `gold`, `right`, and `text` or `completion` (or `answer`, which is put
into \\boxed{}); where they differ from the default also `extract`, `tolerance`, `judge`, `question`
and `documented` (the answer is among those that docs/grading.md says are not accepted). The cases
of every file are also counted in two random halves, of which one can be left unread (`--show 0`
lists the first) while rules are written.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from sage_cli.grading import Grader

Case = dict[str, Any]
_HALVES = 61
"""The seed by which cases are divided."""


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file, in one form: `text` is a completion, `half` is 0 or 1."""
    draw = random.Random(_HALVES)
    cases = []
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        kind = case.get("kind") or case.get("category") or case.get("note") or ""
        text = case.get("text") or case.get("completion")
        boxed = "kind" in case  # these files have the answer, others the completion with its tags
        cases.append(
            {
                "file": path.name,
                "half": int(draw.random() < 0.5),
                "kind": kind,
                "gold": case["gold"],
                "text": text or f"So we are done.\n\\boxed{{{case['answer']}}}",
                "right": case["right"] if "right" in case else case["expected"],
                "question": case.get("question"),
                "documented": case.get("documented", False),
                "grader": (
                    case.get("judge") or ("roles" if "knave" in kind else "math"),
                    case.get("extract") or ("boxed" if boxed else "tags"),
                    case.get("tolerance") or 0.0,
                ),
            }
        )
    return cases


def grade_cases(cases: list[Case]) -> Iterator[Case]:
    """Yield each case with its `status`."""
    ordered = sorted(cases, key=lambda case: case["grader"])
    for (judge, place, tolerance), group in groupby(ordered, lambda case: case["grader"]):
        alike = list(group)
        with Grader(judge=judge, extract=place, tolerance=tolerance or None) as grader:
            grades = grader.grade_many(
                [(case["gold"], case["text"]) for case in alike],
                questions=[case["question"] for case in alike],
            )
        for case, grade in zip(alike, grades, strict=True):
            yield {**case, "status": grade.status}


def count(name: str, graded: list[Case]) -> None:
    """Print one line."""
    wrong = [case for case in graded if not case["right"]]
    correct = [case for case in graded if case["right"]]
    rewarded = sum(case["status"] == "right" for case in wrong)
    refused = sum(case["status"] != "right" for case in correct)
    print(
        f"{name}: {rewarded} of {len(wrong)} wrong answers rewarded, "
        f"{refused} of {len(correct)} correct ones refused"
    )


def main() -> None:
    """Grade and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--show", choices=["0", "1", "all"], help="list the cases of this half")
    arguments = parser.parse_args()
    for path in arguments.files:
        graded = list(grade_cases(read_cases(path)))
        undocumented = [case for case in graded if not case["documented"]]
        count(path.name, undocumented)
        if len(undocumented) < len(graded):
            count("  documented limits", [case for case in graded if case["documented"]])
        for half in (0, 1):
            count(f"  half {half}", [case for case in undocumented if case["half"] == half])
        for case in graded:
            if arguments.show in (None, str(1 - case["half"])):
                continue
            if (case["status"] == "right") != case["right"]:
                said = "refused" if case["right"] else "rewarded"
                text = " ".join(case["text"].split())[-120:]
                print(f"  {said} ({case['status']}): {case['kind']} | {case['gold']} | {text}")


if __name__ == "__main__":
    main()
