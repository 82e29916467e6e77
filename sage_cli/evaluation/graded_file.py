"""The grades of a file of golds and completions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import grader_of
from sage_cli.evaluation.logs.log import Log, ReadOptions, with_choices
from sage_cli.evaluation.logs.registry import detect_program, read_log
from sage_cli.grading.grades import STATUSES, Grade
from sage_cli.json_value import json_value
from sage_cli.progress import Progress
from sage_cli.settings.judge_names import IMPORTED_JUDGE

_AT_ONCE = 1024


def judge_of_file(config: SageConfig) -> str:
    """Return the judge of a file's answers."""
    return config.grading.judge or "math"


def read_foreign_log(path: Path, reading: ReadOptions) -> Log | None:
    """Return the samples of another program's file; None for rows of one's own without verdicts."""
    is_jsonl = path.suffix not in (".eval", ".parquet") and not reading.fields
    try:
        is_jsonl = is_jsonl and detect_program(path).name == "jsonl"
        log = read_log(path, reading)
    except DataError:
        if not is_jsonl:
            raise
        return None
    return log if log.program != "jsonl" or log.has_verdicts else None


@dataclass(frozen=True)
class Item:
    """A completion with its line and its index among the line's completions."""

    line: int
    index: int
    gold: object
    completion: object
    question: str | None = None


@dataclass(frozen=True)
class Malformed:
    """A line that is not graded, and why."""

    line: int
    why: str


@dataclass(frozen=True)
class GradedFile:
    """The items of a file, each mode's grades in the same order, and the malformed lines."""

    items: list[Item]
    grades: dict[str, list[Grade]]
    malformed: list[Malformed]

    def counts(self, mode: str) -> dict[str, int]:
        """Return the number of completions with each status."""
        counts = Counter(grade.status for grade in self.grades[mode])
        return {status: counts[status] for status in STATUSES}

    @property
    def unjudged(self) -> list[tuple[Item, Grade]]:
        """The items that are neither correct nor wrong, errors first, each with why it is not."""
        pairs = zip(self.items, next(iter(self.grades.values())), strict=True)
        without = [(item, grade) for item, grade in pairs if grade.reason]
        return sorted(without, key=lambda pair: pair[1].status)

    @property
    def differences(self) -> list[tuple[Item, dict[str, Grade]]]:
        """The items that are correct in one mode and not in another."""
        pairs = [
            (item, {mode: grades[number] for mode, grades in self.grades.items()})
            for number, item in enumerate(self.items)
        ]
        return [
            (item, by_mode)
            for item, by_mode in pairs
            if len({grade.status == "right" for grade in by_mode.values()}) > 1
        ]


def grade_file(
    path: Path, config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> GradedFile:
    """Grade the rows {gold, completion} or {gold, completions} of a JSONL file in each mode.

    Raises DataError if the file cannot be read or has no row that can be graded.
    """
    items: list[Item] = []
    malformed: list[Malformed] = []
    for row in _read(path):
        (items if isinstance(row, Item) else malformed).append(row)  # type: ignore[arg-type]
    if not items:
        why = f"; line {malformed[0].line}: {malformed[0].why}" if malformed else ""
        raise DataError(
            f"{path} has no rows to grade{why}",
            'each line must be a JSON object such as {"gold": "27", "completion": "..."}',
        )
    return GradedFile(items, _graded(items, config, modes, progress), malformed)


def grade_log(
    log: Log, path: Path, config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> GradedFile:
    """Grade another program's samples by a judge of ours, beside the verdicts that came with them.

    Raises DataError if the file has no golds or no completions.
    """
    if not log.has_golds or any(sample.text is None for sample in log.samples):
        raise DataError(
            f"{path} has no reference answers or no completions, so that no judge can compare them",
            f"`sage passk {path}` counts the verdicts that came with it",
        )
    items = [
        Item(number, 0, sample.gold, sample.text, with_choices(sample.question, sample.choices))
        for number, sample in enumerate(log.samples, 1)
    ]
    grades = _graded(items, config, modes, progress)
    if log.has_verdicts:
        grades[IMPORTED_JUDGE] = [
            Grade("right" if sample.correct else "wrong", sample.extracted)
            for sample in log.samples
        ]
    return GradedFile(items, grades, [])


def _graded(
    items: Sequence[Item], config: SageConfig, modes: tuple[str, ...], progress: Progress
) -> dict[str, list[Grade]]:
    """Return each mode's grades of the items."""
    config.grading.require_judge()
    grades: dict[str, list[Grade]] = {}
    for mode in modes:
        progress.begin(f"grading ({mode})", len(items), "completions")
        chosen = config.grading.model_copy(update={"mode": mode})
        with grader_of(judge_of_file(config), None, chosen, config.prompt) as grader:
            grades[mode] = []
            for start in range(0, len(items), _AT_ONCE):
                part = items[start : start + _AT_ONCE]
                grades[mode] += grader.grade_many(
                    [(item.gold, item.completion) for item in part],
                    [item.question for item in part],
                )
                progress.advance(len(part))
        progress.end()
    return grades


def _read(path: Path) -> Iterator[Item | Malformed]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from _row(number, line)


def _row(number: int, line: bytes) -> Iterator[Item | Malformed]:
    try:
        row: Any = json_value(line)
    except ValueError as error:
        yield Malformed(number, f"not JSON: {str(error)[:200]}")
        return
    if not isinstance(row, dict):
        yield Malformed(number, "not an object")
    elif "gold" not in row:
        yield Malformed(number, "no field 'gold'")
    elif isinstance(row.get("completions"), list):
        for index, completion in enumerate(row["completions"]):
            yield Item(number, index, row["gold"], completion, _question(row))
    elif "completion" in row:
        yield Item(number, 0, row["gold"], row["completion"], _question(row))
    else:
        yield Malformed(number, "no field 'completion', and no list 'completions'")


def _question(row: dict[str, Any]) -> str | None:
    question, choices = row.get("question"), row.get("choices")
    if not isinstance(question, str):
        return None
    return with_choices(question, [*map(str, choices)] if isinstance(choices, list) else ())
