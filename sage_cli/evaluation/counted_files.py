"""Counts of files: logs of other programs and counts of one's own, and the problems they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.imported import ForeignFile, gathered
from sage_cli.evaluation.log_formats import Owners, detected, is_correct, read_foreign
from sage_cli.file_hash import file_hash
from sage_cli.metrics import Counts, parse_ks
from sage_cli.models.policy import NO_GOLD
from sage_cli.problems.problem import Problem
from sage_cli.problems.rows import read_file
from sage_cli.reports.document import Provenance
from sage_cli.store.run import surroundings

EXPECTED = "a row is {problem, correct} for one sample, or {problem, n, c} for all samples of one"
_SHOWN = 5


@dataclass(frozen=True)
class CountedFile:
    """A file's counts under the ids that it gives its problems.

    `problems` are by id, none for a file of counts; `log` is what another program's file says
    besides its samples.
    """

    path: Path
    counts: Counts
    problems: Mapping[str, Problem] = field(default_factory=dict)
    log: ForeignFile = field(default_factory=lambda: ForeignFile("counts", ()))

    @property
    def task(self) -> str | None:
        """The name of the benchmark, None where the file doesn't say it."""
        return self.log.settings.get("task")

    @property
    def ids(self) -> dict[str, str]:
        """The ids by question, whose blanks don't count."""
        return {_words(row): id_ for id_, row in self.problems.items()}


def read_counted_files(names: Sequence[str], scores: Sequence[str] = ()) -> list[CountedFile]:
    """Return the files' counts under the named score, or a score for each file.

    Raises DataError for a file that doesn't say of every sample whether it is right.
    """
    if len(scores) not in (0, 1, len(names)):
        raise ConfigurationError(
            f"--score names {len(scores)} scores for {len(names)} files",
            "type it once for all files, or once for each in their order",
        )
    taken = scores if len(scores) == len(names) else [*scores, None][:1] * len(names)
    return [_read(Path(name), score) for name, score in zip(names, taken, strict=True)]


def _read(path: Path, score: str | None) -> CountedFile:
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path; files stand beside no runs")
    try:
        detected(path)
    except DataError:
        if path.suffix not in (".json", ".jsonl", ".csv"):
            raise
        return CountedFile(path, read_counts(path))
    log = read_foreign(path, score)
    if not log.has_verdicts:
        raise DataError(
            f"{path} doesn't say which samples are right: "
            + ("; ".join(log.notes) or f"not every row has {log.score or 'a score'}"),
            "name a score of 0 and 1 with --score, or let sage's judge compare the golds: "
            f"sage samples import {path} --as NAME",
        )
    samples = gathered(log, path)
    problems = {str(row.meta["id"]): row for row in samples.problems.values()}
    rows_by_problem = samples.samples.values()
    n = [len(rows) for rows in rows_by_problem]
    c = [sum(sample.right is True for sample in rows) for rows in rows_by_problem]
    counts = Counts(tuple(problems), np.array(n), np.array(c))
    return CountedFile(path, counts, problems, replace(log, samples=()))


def read_counts(path: Path) -> Counts:
    """Return the counts of a file whose rows are samples or counts; its columns say which.

    `correct` is true/false or 1/0, or in JSON a list of them. JSON is a list of rows, or an
    object whose `problems` is one. Raises DataError naming the malformed rows by number.
    """
    n: dict[str, int] = {}
    c: dict[str, int] = {}
    complaints = []
    summarised: set[str] = set()
    owners = Owners()
    for location, row in read_file(path, inside="problems"):
        try:
            problem, samples, right, is_count = _counted(row)
            if problem in summarised or (is_count and problem in n):
                raise ValueError(f"problem '{problem}' was counted before")
            owners.refuse_another(problem, row)
        except ValueError as error:
            complaints.append(f"{location}: {error}")
            continue
        if is_count:
            summarised.add(problem)
        n[problem] = n.get(problem, 0) + samples
        c[problem] = c.get(problem, 0) + right
    if complaints:
        more = len(complaints) - _SHOWN
        listed = complaints[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        raise DataError("\n".join(listed), EXPECTED)
    if not n:
        raise DataError(f"{path} holds no rows", EXPECTED)
    return Counts(tuple(n), np.array([*n.values()]), np.array([*c.values()]))


def _counted(row: Mapping[str, Any]) -> tuple[str, int, int, bool]:
    """Problem, samples, right ones, and True if the row is the count of its problem."""
    problem = row.get("problem")
    if not isinstance(problem, str | int) or isinstance(problem, bool) or problem == "":
        raise ValueError("no 'problem' (a name or a number)")
    if "correct" in row:
        given = row["correct"]
        grades = [is_correct(value) for value in (given if isinstance(given, list) else [given])]
        if not grades:
            raise ValueError("'correct' is an empty list")
        return str(problem), len(grades), sum(grades), False
    n, c = _whole(row, "n"), _whole(row, "c")
    if c > n:
        raise ValueError(f"problem '{problem}': c = {c} is more than n = {n}")
    if n == 0:
        raise ValueError(f"problem '{problem}' has no samples (n = 0)")
    return str(problem), n, c, True


def _whole(row: Mapping[str, Any], name: str) -> int:
    if row.get(name) in (None, ""):
        raise ValueError(f"neither 'correct' nor '{name}'")
    text = str(row[name]).strip()
    if not text.isdecimal():
        raise ValueError(f"{name} is {row[name]!r}, not a whole number")
    return int(text)


def file_labels(files: Sequence[CountedFile]) -> list[str]:
    """Return the files' models where all are known and different, else the files' names."""
    stems, paths = [file.path.stem for file in files], [str(file.path) for file in files]
    models = [str(file.log.settings.get("model") or "").split("/")[-1] for file in files]
    models = [model or stem for model, stem in zip(models, stems, strict=True)]
    return next((names for names in (models, stems) if len({*names}) == len(names)), paths)


def ks_of_files(files: Sequence[CountedFile], ks: str | None, default: str) -> tuple[int, ...]:
    """Return the ks that are named, or those of `default`, in which `n` stands for the samples.

    Raises ConfigurationError for a k that a file's samples don't allow.
    """
    fewest = min(files, key=lambda file: file.counts.n_P.min())
    n, problem = min(zip(fewest.counts.n_P.tolist(), fewest.counts.problem_ids, strict=True))
    *_, k = parsed = parse_ks(ks or default.replace("n", str(n)))
    if k > n:
        raise ConfigurationError(
            f"pass@{k} is undefined with {n} sample{'s' * (n > 1)} of problem {_short(problem)} in "
            f"{fewest.path} (k > n)",
            f"ask for k up to {n}, or evaluate {k} times (in Inspect --epochs {k})",
        )
    return parsed


def provenance_of_files(files: Sequence[CountedFile]) -> Provenance:
    """Return the hashes of the files, and what is known before anything is measured."""
    hashes = {str(file.path): file_hash(file.path) for file in files}
    return replace(Provenance.here(surroundings()), files=hashes or None)


def file_notes(files: Sequence[CountedFile]) -> list[str]:
    """Return what differs between the files' evaluations, and what of each was not taken."""
    stated = [{"score": file.log.score, **file.log.settings} for file in files]
    notes = [
        f"the files differ in {name}: {', '.join(str(settings.get(name)) for settings in stated)}"
        for name in ("task", "score", "temperature", "top_p", "max_tokens")
        if len({settings.get(name) for settings in stated} - {None}) > 1
    ]
    return notes + [f"{file.path}: {note}" for file in files for note in file.log.notes]


def shared_problems(
    files: Sequence[CountedFile],
) -> tuple[list[Counts], dict[str, list[str]], list[str]]:
    """Return each file's counts of the problems that all have, under the ids of the first.

    Beside them the ids of the others by file, and notes. Raises DataError if they share nothing.
    """
    first = files[0]
    matches = [_matches(first, other) for other in files]
    ids = [id_ for id_ in first.counts.problem_ids if all(id_ in match for match in matches)]
    if not ids:
        fewest = min(matches, key=len)
        listed = [first, files[matches.index(fewest)]]
        texts = [_short(next(iter((*file.ids, *file.counts.problem_ids)))) for file in listed]
        raise DataError(
            f"{listed[0].path} and {listed[1].path} have no problem in common: they begin with "
            f"'{texts[0]}' and '{texts[1]}'",
            "name logs of one benchmark; questions may differ where every id has the same gold",
        )
    counts: list[Counts] = []
    unmatched: dict[str, list[str]] = {}
    notes, by_id = [], set()
    for file, match in zip(files, matches, strict=True):
        own = [match[id_] for id_ in ids]
        row_of = {id_: index for index, id_ in enumerate(file.counts.problem_ids)}
        rows, taken = [row_of[id_] for id_ in own], {*own}
        counts.append(Counts(tuple(ids), file.counts.n_P[rows], file.counts.c_P[rows]))
        if alone := [id_ for id_ in row_of if id_ not in taken]:
            unmatched[str(file.path)] = alone
            shown = [*map(_short, alone[:_SHOWN]), *["..."] * (len(alone) > _SHOWN)]
            notes.append(f"left out of {file.path}: {len(alone):,} problems, {', '.join(shown)}")
        pairs = {id_: (first.problems.get(id_), file.problems.get(match[id_])) for id_ in ids}
        by_id |= {id_ for id_, (a, b) in pairs.items() if a and b and _words(a) != _words(b)}
    if by_id:
        notes.append(f"{len(by_id):,} problems matched by id and gold: other words in the question")
    return counts, unmatched, notes


def _matches(first: CountedFile, other: CountedFile) -> dict[str, str]:
    """Return the other's id of each of the first's problems that it has.

    Problems with the same question are the same. Ids alone are believed of files of counts; of
    two logs with different questions, as under two prompts, where all golds agree and the tasks
    have one name: ids are 1, 2, 3 in many benchmarks.
    """
    theirs = other.ids
    same = {id_: theirs[words] for words, id_ in first.ids.items() if words in theirs}
    known = {*other.counts.problem_ids} - {*same.values()}
    rest = {id_: id_ for id_ in first.counts.problem_ids if id_ in known and id_ not in same}
    if first.problems and other.problems:
        golds = [(first.problems[id_].gold, other.problems[id_].gold) for id_ in rest]
        if first.task != other.task or any(a != b or a == NO_GOLD for a, b in golds):
            return same
    return same | rest


def _words(problem: Problem) -> str:
    return " ".join(problem.question.split())


def _short(text: str) -> str:
    return shorten(text, 50, placeholder="...")
