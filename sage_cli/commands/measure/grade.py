"""`sage grade`: the grades of a file of golds and completions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.commands.measure.samples import kept_completions
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import grader_of
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.grading import Grade
from sage_cli.grading.grades import STATUSES
from sage_cli.grading.judges.verdicts import require_judge
from sage_cli.json_value import json_value
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import NO_GOLD
from sage_cli.problems.load import load_problems
from sage_cli.progress import Progress
from sage_cli.settings.sections.grading import GradingSection
from sage_cli.settings.sections.judging import IMPORTED_JUDGE
from sage_cli.settings.sections.model import PromptSection
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.annotations import GradeStore

_AT_ONCE = 1024


@dataclass(frozen=True)
class Item:
    """A completion with its line and its index among the line's completions."""

    line: int
    index: int
    gold: object
    completion: object


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
    def differences(self) -> list[tuple[Item, dict[str, Grade]]]:
        """The items that are right in one mode and not in another."""
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
    path: Path,
    grading: GradingSection,
    prompt: PromptSection,
    modes: tuple[str, ...],
    judge: str,
    progress: Progress,
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
            f"{path} has no row to grade{why}",
            'each line is an object as {"gold": "27", "completion": "..."}',
        )
    return GradedFile(items, _graded(items, grading, prompt, modes, judge, progress), malformed)


THEN = "in training"
"""The name of the grades that a training gave."""


def grade_training(
    run: Run, grading: GradingSection, prompt: PromptSection, judge: str, progress: Progress
) -> GradedFile:
    """Grade the completions of a training again; an item's line is the step that sampled it.

    Raises StoreError if they weren't kept.
    """
    rows = kept_completions(run).to_pylist()
    items, places = [], Counter[int]()
    for row in rows:
        items.append(Item(row["step"], places[row["step"]], row["gold"], row["text"]))
        places[row["step"]] += 1
    then = [Grade(row["grade"], None) for row in rows]
    again = _graded(items, grading, prompt, (grading.mode,), judge, progress)
    return GradedFile(
        items, {f"{judge}, {mode}": of for mode, of in again.items()} | {THEN: then}, []
    )


def grade_imported(
    run: Run,
    config: SageConfig,
    modes: tuple[str, ...],
    judge: str,
    progress: Progress,
) -> GradedFile:
    """Grade imported samples by a judge of ours, beside the verdicts that came with them.

    An item's line is the number of its problem. Raises DataError if the file had no golds.
    """
    spec = EvaluationSpec.of(config)
    policy = Policy.of_run(run)
    problems = load_problems(spec.evaluation.benchmark, spec.data, spec.evaluation.fields)
    if any(problem.gold == NO_GOLD for problem in problems):
        raise DataError(
            f"the file that {run.id} was imported from has no golds: no judge can compare answers",
            f"`sage passk {run.id}` takes the verdicts that came with it",
        )
    line = {problem.id: number for number, problem in enumerate(problems, 1)}
    golds = {problem.id: problem.gold for problem in problems}
    stored = PolicySamples.of_evaluation(policy, spec, run.folder.parent).at(0, read_only=True)
    rows = list(stored.completions(golds))
    items = [Item(line[r.problem_id], r.index, golds[r.problem_id], r.text) for r in rows]
    verdicts = {
        (row.problem_id, row.index): Grade(status, extracted)
        for row, status, extracted in GradeStore(stored, {"judge": IMPORTED_JUDGE}).stream(
            golds, sys.maxsize
        )
    }
    grades = _graded(items, config.grading, config.prompt, modes, judge, progress)
    if len(verdicts) == len(rows):
        grades[IMPORTED_JUDGE] = [verdicts[row.problem_id, row.index] for row in rows]
    return GradedFile(items, grades, [])


def _graded(
    items: Sequence[Item],
    grading: GradingSection,
    prompt: PromptSection,
    modes: tuple[str, ...],
    judge: str,
    progress: Progress,
) -> dict[str, list[Grade]]:
    """Return each mode's grades of the items."""
    require_judge(judge)
    grades: dict[str, list[Grade]] = {}
    for mode in modes:
        progress.begin(f"grading ({mode})", len(items), "completions")
        chosen = grading.model_copy(update={"mode": mode})
        with grader_of(judge, None, chosen, prompt) as grader:
            grades[mode] = []
            for start in range(0, len(items), _AT_ONCE):
                part = items[start : start + _AT_ONCE]
                grades[mode] += grader.grade_many((item.gold, item.completion) for item in part)
                progress.advance(len(part))
        progress.end()
    return grades


def _read(path: Path) -> Iterator[Item | Malformed]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror}") from error
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
            yield Item(number, index, row["gold"], completion)
    elif "completion" in row:
        yield Item(number, 0, row["gold"], row["completion"])
    else:
        yield Malformed(number, "no field 'completion', and no list 'completions'")
