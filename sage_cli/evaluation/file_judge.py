"""Grades of a file's completions by a judge of ours, kept in the folder of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import grader_of
from sage_cli.evaluation.final_answers import count_answers
from sage_cli.evaluation.logs.log import Log
from sage_cli.evaluation.logs.problems import Gathered
from sage_cli.evaluation.policy_samples import imported_set
from sage_cli.evaluation.stored_grades import counts_of
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import AnswerTags, extract
from sage_cli.metrics import Counts
from sage_cli.progress import Progress
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.sample_set import SampleSet


def grading_settings(file: Log) -> dict[str, str]:
    r"""Return the settings of `grading` under which the samples count.

    The program's own verdicts where each sample has one. A judge of ours looks for the answer in
    our tags or in \boxed{}, if any completion has those; else Math-Verify searches the text.
    """
    tags = AnswerTags()
    boxed = any(
        extract(sample.text or "", tags, "tags-then-boxed") is not None for sample in file.samples
    )
    settings = (
        {"extract": "tags-then-boxed"} if boxed else {"extract": "text", "mode": "math-verify"}
    )
    return {**settings, **({"judge": IMPORTED_JUDGE} if file.has_verdicts else {})}


@dataclass(frozen=True)
class Graded:
    """A file's counts by a judge of ours: its identity, where its grades are, their statuses."""

    counts: Counts
    judge: dict[str, Any]
    folder: Path
    statuses: Counter[str]

    @property
    def note(self) -> str:
        """Say who graded, with what result, and where the grades are kept."""
        total = self.statuses.total()
        others = ", ".join(
            f"{n:,} {status}"
            for status, n in sorted(self.statuses.items())
            if n and status not in ("right", "wrong")
        )
        return (
            f"graded by sage's judge {self.judge['judge']} ({self.judge['mode']}): "
            f"{self.statuses['right']:,} of {counted(total, 'sample')} correct"
            + (f", {others}" if others else "")
            + f"; the grades are kept in {self.folder}"
        )


@dataclass(frozen=True)
class FileJudge:
    """How files without verdicts are graded: settings, and the folder of runs for the grades."""

    config: SageConfig
    progress: Progress
    decides_alone: bool = True
    """False where the same settings also grade samples of our own."""
    counts_votes: bool = False
    """True where the final answers are counted, too."""

    @property
    def is_asked_for(self) -> bool:
        """Return True if the user names a judge, which then grades what has verdicts, too."""
        judge = self.config.grading.judge
        return self.config.named_here("grading.judge") and judge not in (None, IMPORTED_JUDGE)

    def check_grading_settings(self, paths: Sequence[Path]) -> None:
        """Raise ConfigurationError for settings of grading, where files have their own verdicts."""
        if not self.decides_alone:
            return
        named = [
            f"grading.{name}"
            for name in type(self.config.grading).model_fields
            if self.config.named_here(f"grading.{name}")
        ]
        if named:
            raise ConfigurationError(
                f"{named[0]} has no effect: {', '.join(map(str, paths))} came with verdicts, or "
                "without golds and completions to judge",
                "leave it out, or name a judge to grade golds and completions again: "
                "--set grading.judge=math",
            )

    def grade(self, log: Log, samples: Gathered, path: Path) -> Graded:
        """Return the counts of a log's golds and completions; what is graded stays graded.

        `samples` are by content. Raises DataError for golds that the judge can't read.
        """
        config = self.config
        settings = {
            name: value
            for name, value in grading_settings(log).items()
            if name != "judge" and not config.named_here(f"grading.{name}")
        }
        judge = config.grading.judge
        judge = "math" if judge in (None, IMPORTED_JUDGE) else judge
        grading = config.grading.model_copy(update={**settings, "judge": judge})
        if judge == "math":
            check_readable_golds(samples, path)
        golds = {id_: problem.gold for id_, problem in samples.problems.items()}
        stored = store_samples(config.run.root, log.program, samples)
        with grader_of(judge, None, grading, config.prompt) as grader:
            identity = grader.identity.mapping()
            grades = GradeStore(stored, identity)
            self.progress.begin(f"grading {path}", len(log.samples), "samples")
            for rows in grades.missing(list(golds), samples.most):
                given = grader.grade_many(
                    [(golds[row.problem_id], row.text) for row in rows],
                    [samples.problems[row.problem_id].question for row in rows],
                )
                graded = zip(rows, given, strict=True)
                grades.add([(row, grade.status, grade.extracted) for row, grade in graded])
                self.progress.advance(len(rows))
            grades.flush()
            self.progress.end()
        tally = grades.tally(list(golds), samples.most)
        ids = tuple(str(problem.meta["id"]) for problem in samples.problems.values())
        votes = count_answers(grades, list(golds), samples.most) if self.counts_votes else None
        counts = replace(counts_of(tally, None), problem_ids=ids, grades=None, votes=votes)
        return Graded(counts, identity, stored.folder, tally.statuses)


def check_readable_golds(samples: Gathered, path: Path) -> None:
    """Raise DataError for golds that `math` does not grade as correct answers to themselves."""
    golds = [(problem.meta["id"], problem.gold) for problem in samples.problems.values()]
    if refused := check_golds(golds):
        raise DataError(
            f"{path} has no verdicts, and {len(refused)} reference answers are not "
            "graded correct when they are given as answers: "
            f"{', '.join(map(str, refused[:5]))}",
            "fix these reference answers, or add a column `correct`",
        )


def store_samples(root: Path, program: str, samples: Gathered) -> SampleSet:
    """Store completions in the set of their content; what is there is not written again."""
    stored = imported_set(root, samples.fingerprint)
    with stored.writing({"engine": f"imported from {program}"}) as writer:
        for n in sorted({len(of_problem) for of_problem in samples.samples.values()}):
            ids = [id_ for id_, of_problem in samples.samples.items() if len(of_problem) >= n]
            while claimed := writer.claim(ids, n):
                for id_, indices in claimed.items():
                    for index in indices:
                        row = samples.samples[id_][index]
                        text, tokens, reason = row.text, row.tokens, row.finish_reason
                        known = row.seed or 0, text or "", tokens or 0, reason or "stop"
                        writer.add(Completion(id_, index, *known))
    return stored
