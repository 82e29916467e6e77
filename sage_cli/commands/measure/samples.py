"""`sage samples`: stored completions with their grades, and samples of other programs as a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from typing_extensions import TypedDict

from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.imported.foreign import ForeignFile
from sage_cli.evaluation.imported.formats import FORMATS, detected, read_foreign
from sage_cli.evaluation.imported.stored import (
    Gathered,
    gathered,
    imported_run,
    refuse_unreadable_golds,
    store,
)
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import StoredAnswer, stored_answers
from sage_cli.grading.grades import STATUSES
from sage_cli.models.policies.names import named_policy
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run, Runs


class TrainingCompletion(TypedDict):
    """A completion that a training sampled at a step, its grade, and the advantage it had.

    The advantage is null if no loss read it, as where dynamic sampling replaced its group.
    """

    step: int
    problem: str
    prompt: str
    gold: str
    text: str
    grade: str
    advantage: float | None


def samples_show(
    evaluation: Evaluation, name: str, problem: str | None, grade: str | None, limit: int
) -> list[StoredAnswer]:
    """Return at most `limit` stored completions of a policy, in order of problems and samples.

    `problem` is a prefix of an id. Raises StoreError if no such completion is stored.
    """
    _require_grade(grade)
    spec, benchmarks = evaluation.spec, evaluation.benchmarks
    policy = named_policy(name, Runs(evaluation.root), spec.model)
    samples = evaluation.samples(policy)
    ids = {
        one.name: [id_ for id_ in one.golds if id_.startswith(problem or "")] for one in benchmarks
    }
    if not any(ids.values()):
        raise DataError(
            f"no problem of {spec.evaluation.benchmark} has an id that begins with '{problem}'",
            "the CSV of `sage passk` and of suites lists them",
        )
    answers = list(islice(_wanted(samples, benchmarks, spec, ids, grade), limit))
    if not answers:
        graded = f"{grade} " if grade else ""
        raise StoreError(
            f"no {graded}completion of {policy.label} on {spec.evaluation.benchmark} is stored "
            "under these settings",
            f"`sage passk {name}` samples what is missing",
        )
    return answers


def training_show(
    run: Run, problem: str | None, grade: str | None, step: int | None, limit: int
) -> list[TrainingCompletion]:
    """Return at most `limit` completions of a training, in the order in which it sampled them.

    Raises StoreError if none of these is kept.
    """
    _require_grade(grade)
    rows = kept_completions(run).to_pylist()
    wanted = (
        row
        for row in rows
        if row["problem"].startswith(problem or "")
        and grade in (None, row["grade"])
        and step in (None, row["step"])
    )
    found = [
        TrainingCompletion(
            step=row["step"],
            problem=row["problem"],
            prompt=row["prompt"],
            gold=row["gold"],
            text=row["text"],
            grade=row["grade"],
            advantage=row["advantage"],
        )
        for row in islice(wanted, limit)
    ]
    if not found:
        raise StoreError(
            f"none of the {len(rows):,} completions of {run.id} is like that",
            "leave out --step, --grade or --problem",
        )
    return found


def kept_completions(run: Run) -> pa.Table:
    """Return the completions of a training. Raises StoreError if they weren't kept."""
    table = run.completions().read()
    if not len(table):
        raise StoreError(
            f"{run.id} has not kept the completions of its training",
            "train it again with --set tracking.rollouts=all --fresh",
        )
    return table


def _require_grade(grade: str | None) -> None:
    if grade is not None and grade not in STATUSES:
        raise ConfigurationError(f"there is no grade '{grade}'", f"there are {', '.join(STATUSES)}")


def _wanted(
    samples: PolicySamples,
    benchmarks: Sequence[Benchmark],
    spec: EvaluationSpec,
    ids: dict[str, list[str]],
    grade: str | None,
) -> Iterator[StoredAnswer]:
    """Yield completions problem after problem, so that the first come before all are read."""
    for benchmark in benchmarks:
        for id_ in ids[benchmark.name]:
            answers = stored_answers(samples, benchmark, spec, [id_], spec.evaluation.samples)
            for answer in sorted(answers, key=lambda one: (one.seed, one.completion.index)):
                if grade in (None, answer.status):
                    yield answer


@dataclass(frozen=True)
class Imported:
    """The run of imported samples, and what was read; `was_there` if it had been stored before."""

    run: Run
    form: str
    file: ForeignFile
    samples: Gathered
    was_there: bool

    @property
    def in_words(self) -> list[str]:
        """Return what was read, known and not, a line each."""
        file, samples = self.file, self.samples
        known = [f"{key} {value}" for key, value in file.settings.items() if value is not None]
        total = sum(map(len, samples.samples.values()))
        judged = (
            f"{samples.right:,} of {total:,} right by {file.program}'s {file.score}"
            if file.has_verdicts
            else "no verdict for each sample: the golds are compared with our judge"
        )
        uneven = samples.n != samples.most
        return [
            f"{samples.in_words()}, {judged}",
            *file.notes,
            *(
                [f"{samples.left_out} samples of repeated problems are left out"]
                * bool(samples.left_out)
            ),
            *([f"the first {samples.n} samples of each problem are measured"] * uneven),
            f"the file says: {', '.join(known) or 'no settings'}",
            f"it doesn't say: {', '.join(file.unknown) or 'nothing is missing'}",
        ]

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the answer of `--json`."""
        total = sum(map(len, self.samples.samples.values()))
        return {
            "run": self.run.id,
            "program": self.file.program,
            "score": self.file.score,
            "problems": len(self.samples.problems),
            "samples": total,
            "right": self.samples.right if self.file.has_verdicts else None,
            "settings": {k: v for k, v in self.file.settings.items() if v is not None},
            "unknown": list(self.file.unknown),
            "notes": self.in_words,
        }


def import_samples(
    root: Path,
    path: Path,
    name: str,
    program: str | None,
    score: str | None,
    progress: Progress,
    *,
    write: bool = True,
) -> Imported:
    """Read a file and store its samples as the run `name`; without `write` nothing is stored.

    What can't be used is an error before anything is written.
    """
    with progress.doing(f"reading {path}"):
        file = read_foreign(path, program, score)
        form = FORMATS[program or detected(path)].title
        samples = gathered(file, path)
        run = imported_run(root, name, samples)
    with progress.doing("reading the golds"):
        refuse_unreadable_golds(file, samples, path)
    there = run.begun and run.finished
    if write and not there:
        with progress.doing(f"storing {samples.in_words()}"):
            store(run, path, file, samples)
    return Imported(run, form, file, samples, there)
