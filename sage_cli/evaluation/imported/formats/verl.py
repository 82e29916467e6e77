"""verl's `trainer.validation_data_dir` and `rollout_data_dir`: STEP.jsonl, a row a completion."""

from __future__ import annotations

from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import (
    ForeignFile,
    ForeignSample,
    chosen_score,
    only,
    verdict,
)
from sage_cli.problems.files import read_file

NEEDED = {"input", "output", "score", "step"}
_OURS = {"input", "output", "gts", "step"}


def read(path: Path, score: str | None) -> ForeignFile:
    """Return the samples of a dump; rows with the same `input` are of one problem.

    A verdict is `acc` where the reward function gave it, else `score`, right where it is 1.
    """
    samples, steps, shares = [], set(), 0
    scores: list[str] = []
    chosen: str | None = None
    for place, row in read_file(path):
        if not NEEDED.issubset(row):
            raise DataError(f"{place} is no row of verl: it lacks input, output, score or step")
        if not scores:
            numbers = [key for key in row if isinstance(row[key], bool | int | float)]
            scores = sorted(set(numbers) - _OURS, key=lambda name: (name != "acc", name != "score"))
            chosen = chosen_score(scores, score, str(path))
        question = only(row["input"], place, "input")
        gold = None if row.get("gts") is None else only(row["gts"], place, "gts")
        extracted = row.get("pred")
        value = row.get(chosen or "")
        shares += isinstance(value, float) and 0 < value < 1
        samples.append(
            ForeignSample(
                question, question, str(row["output"]), gold, verdict(value),
                extracted if isinstance(extracted, str) else None,
            )
        )  # fmt: skip
        steps.add(row["step"])
    notes = (f"{shares} values of {chosen} are between 0 and 1: they count as wrong",)
    settings = {"step": sorted(steps, key=str)[0]} if len(steps) == 1 else {}
    return ForeignFile("verl", samples, chosen, settings, notes if shares else ())
