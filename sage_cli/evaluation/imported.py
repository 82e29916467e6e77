"""Samples of other programs and counts of files: stored as a run's, or counted as they are."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.benchmarks import refuse_two_golds
from sage_cli.evaluation.logs.log import Log, LogSample
from sage_cli.evaluation.logs.plain_rows import Owners, is_correct
from sage_cli.evaluation.logs.registry import detect_program, read_log
from sage_cli.evaluation.samples import imported_set
from sage_cli.file_hash import read_hash
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import AnswerTags, extract
from sage_cli.metrics import Counts, curve, curve_ks
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.folders import WEIGHTS_FILE
from sage_cli.models.policy import NO_GOLD, PROBLEMS, Labels
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.row_files import read_file
from sage_cli.reports.document import Provenance, Report, report_folder
from sage_cli.reports.passk import Line, passk_document
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.sampling import EvaluationSection, parse_ks
from sage_cli.store.annotations import GradeStore
from sage_cli.store.files import identity_of, write_json, write_text
from sage_cli.store.run import IMPORTED, Run, surroundings
from sage_cli.store.sample_parts import Completion, encodable

_STORABLE = {"tokens": range(2**31), "seed": range(-(2**63), 2**63)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_FOLDERS = frozenset({"reports", "runs", "samples", "suites", "sweeps"})


@dataclass(frozen=True)
class Gathered:
    """Problems by id, and the samples of each in the file's order.

    `left_out` counts samples of problems that repeat another's question and gold.
    """

    problems: Mapping[str, Problem]
    samples: Mapping[str, Sequence[LogSample]]
    left_out: int

    @property
    def n(self) -> int:
        """The samples that every problem has."""
        return min(map(len, self.samples.values()))

    @property
    def most(self) -> int:
        """The largest number of samples of a problem."""
        return max(map(len, self.samples.values()))

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of all that is stored, in the place of weights."""
        content = {
            id_: [astuple(sample) for sample in of_problem]
            for id_, of_problem in self.samples.items()
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def right(self) -> int:
        """The samples that the program found right."""
        return sum(
            bool(sample.correct) for of_problem in self.samples.values() for sample in of_problem
        )

    def in_words(self) -> str:
        """Return how many problems and samples there are."""
        several = f"{self.n}" if self.n == self.most else f"{self.n} to {self.most}"
        return f"{len(self.problems):,} problems x {several} samples"


def gathered(file: Log, path: object) -> Gathered:
    """Return a file's samples by problem.

    Raises DataError for a problem without question, for an id or a question with two golds, for a
    seed or number of tokens that can't be stored, and where there is neither a gold nor a verdict
    for every sample.
    """
    if not file.has_verdicts and not file.has_golds:
        raise DataError(
            f"{path} has neither a verdict nor a reference answer for every sample, so "
            "that nothing can be graded",
            "write rows {question, completion} with `gold` or `correct`",
        )
    key_of: dict[str, str] = {}
    problems: dict[str, Problem] = {}
    samples: defaultdict[str, list[LogSample]] = defaultdict(list)
    owner: dict[str, str] = {}
    left_out = 0
    for sample in file.samples:
        problem = _problem(sample, path)
        if key_of.setdefault(sample.problem, problem.id) != problem.id:
            raise DataError(
                f"{path}: problem {sample.problem} appears with different questions or "
                "reference answers",
                "give different problems different ids",
            )
        if owner.setdefault(problem.id, sample.problem) != sample.problem:
            left_out += 1
            continue
        problems.setdefault(problem.id, problem)
        samples[problem.id].append(sample)
    refuse_two_golds(str(path), list(problems.values()))
    return Gathered(problems, samples, left_out)


def _problem(sample: LogSample, path: object) -> Problem:
    for name, storable in _STORABLE.items():
        value = getattr(sample, name)
        if not (value is None or (isinstance(value, int) and value in storable)):
            raise DataError(
                f"{path}: problem {sample.problem} has {name} {value!r}, which is not "
                "a whole number that can be stored",
                f"fix or remove its {name}",
            )
    question, gold = sample.question.strip(), (sample.gold or "").strip() or NO_GOLD
    if not question:
        raise DataError(f"{path}: problem {sample.problem} has no question")
    id_ = problem_id(PROBLEMS, question, gold)
    return Problem(id_, PROBLEMS, question, gold, {"id": sample.problem})


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


def imported_run(root: Path, name: str, samples: Gathered) -> Run:
    """Return the run `name` of these samples, there already or not.

    Raises ConfigurationError for a name that can be no run's, StoreError for one that is taken.
    """
    if not _NAME.fullmatch(name) or name in _FOLDERS or name.endswith((".jsonl", ".csv")):
        raise ConfigurationError(
            f"--as {name}: a name has letters, digits, _, . and -, and differs from "
            "sage's own folders",
            "for example --as their-model",
        )
    run = Run(root / name, identity_of(IMPORTED, samples.fingerprint))
    if not run.begun and not run.is_free:
        raise StoreError(f"{run.folder} exists already and is not a run", "choose another name")
    if run.begun and run.manifest.get("identity") != run.planned:
        raise StoreError(
            f"{run.folder} already exists and contains something else",
            f"choose another name, or `sage runs remove {name}` first",
        )
    return run


def refuse_unreadable(file: Log, samples: Gathered, path: Path) -> None:
    """Raise DataError for samples without texts, and golds to compare that `math` can't read."""
    if any(sample.text is None for sample in file.samples):
        raise DataError(
            f"{path} contains likelihoods, or the number of correct answers without "
            "saying which ones are correct",
            f"`sage passk {path}` and `sage compare` count its verdicts as they are",
        )
    if file.has_verdicts:
        return
    golds = [(problem.meta["id"], problem.gold) for problem in samples.problems.values()]
    if refused := check_golds(golds):
        raise DataError(
            f"{path} has no verdicts, and {len(refused)} reference answers are not "
            "graded correct when they are given as answers: "
            f"{', '.join(map(str, refused[:5]))}",
            "fix these reference answers, or add a column `correct`",
        )


def store(run: Run, path: Path, file: Log, samples: Gathered) -> None:
    """Write the run: its problems, samples, verdicts as grades, and where all that came from."""
    name = encodable(path.name)
    about = {
        "program": file.program,
        "file": name,
        "sha256": read_hash(path),
        "score": file.score,
        "settings": {key: value for key, value in file.settings.items() if value is not None},
        "unknown": list(file.unknown),
    }
    seed = file.settings.get("seed")
    flags: Mapping[str, Any] = {
        "evaluation": {"benchmark": PROBLEMS, "samples": samples.n, "k": f"1..{samples.n}:pow2"},
        "grading": grading_settings(file),
        "tracking": {"wandb": "off"},
    }
    with run.recording(
        load((), flags, (), {}).config.model_dump(mode="json"),
        kind=IMPORTED,
        parent=None,
        seed=seed if isinstance(seed, int) else 0,
        template=IMPORTED,
        data=name,
    ) as recorded:
        recorded.note(imported=about, weights=samples.fingerprint)
        write_json(run.model / WEIGHTS_FILE, {"fingerprint": samples.fingerprint})
        rows = (
            {"question": problem.question, "gold": problem.gold, "id": problem.meta["id"]}
            for problem in samples.problems.values()
        )
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(run.folder / PROBLEMS, lines)
        _store_samples(run.folder.parent, file, samples)


def _store_samples(root: Path, file: Log, samples: Gathered) -> None:
    """Store completions and, where each has one, verdicts; what is there is not written again."""
    stored = imported_set(root, samples.fingerprint)
    with stored.writing({"engine": f"imported from {file.program}"}) as writer:
        for n in sorted({len(of_problem) for of_problem in samples.samples.values()}):
            ids = [id_ for id_, of_problem in samples.samples.items() if len(of_problem) >= n]
            while claimed := writer.claim(ids, n):
                for id_, indices in claimed.items():
                    for index in indices:
                        row = samples.samples[id_][index]
                        text, tokens, reason = row.text, row.tokens, row.finish_reason
                        known = row.seed or 0, text or "", tokens or 0, reason or "stop"
                        writer.add(Completion(id_, index, *known))
    if not file.has_verdicts:
        return
    grades = GradeStore(stored, {"judge": IMPORTED_JUDGE}, computable=False)
    for rows in grades.missing(samples.problems, samples.most):
        graded = [(row, samples.samples[row.problem_id][row.index]) for row in rows]
        grades.add([(row, "right" if s.correct else "wrong", s.extracted) for row, s in graded])
    grades.flush()


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
    log: Log = field(default_factory=lambda: Log("counts", ()))

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
            f"--score was given {len(scores)} times for {len(names)} files",
            "give it once for all files, or once per file in their order",
        )
    taken = scores if len(scores) == len(names) else [*scores, None][:1] * len(names)
    return [_read(Path(name), score) for name, score in zip(names, taken, strict=True)]


def _read(path: Path, score: str | None) -> CountedFile:
    if not path.is_file():
        raise DataError(
            f"there is no file {path}",
            "check the path. Files and runs cannot be mixed: to compare a file with a "
            "run, import it with `sage samples import FILE --as NAME`",
        )
    try:
        detect_program(path)
    except DataError:
        if path.suffix not in (".json", ".jsonl", ".csv"):
            raise
        return CountedFile(path, read_counts(path))
    log = read_log(path, score)
    if not log.has_verdicts:
        raise DataError(
            f"{path} does not say which samples are correct: "
            + ("; ".join(log.notes) or f"not every row has {log.score or 'a score'}"),
            "choose a score of 0 and 1 with --score, or let sage grade the samples: "
            f"sage samples import {path} --as NAME",
        )
    samples = gathered(log, path)
    problems = {str(row.meta["id"]): row for row in samples.problems.values()}
    rows_by_problem = samples.samples.values()
    n = [len(rows) for rows in rows_by_problem]
    c = [sum(sample.correct is True for sample in rows) for rows in rows_by_problem]
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
            f"use k up to {n}, or evaluate {k} times (in Inspect --epochs {k})",
        )
    return parsed


def provenance_of_files(files: Sequence[CountedFile]) -> Provenance:
    """Return the hashes of the files, and what is known before anything is measured."""
    hashes = {str(file.path): read_hash(file.path) for file in files}
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


def passk_of_files(
    files: Sequence[CountedFile],
    labels: Labels,
    k: str | None,
    evaluation: EvaluationSection,
    root: Path,
) -> Report:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    `k` says which ks the table shows, without it every k up to the smallest number of samples.
    """
    ks = ks_of_files(files, k, "1..n")
    curve_at = curve_ks(min(int(file.counts.n_P.min()) for file in files), ks)
    typed = {Path(name): label for name, label in labels.items()}
    names = [typed.get(file.path, own) for file, own in zip(files, file_labels(files), strict=True)]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f"{len(repeated)} files would be called '{repeated[0]}'",
            "give each file once, or a label such as FILE=Label",
        )
    resampling = Resampling(evaluation.confidence, evaluation.bootstrap)
    lines = [
        Line(name, file.task or "counted elsewhere", curve([file.counts], curve_at, resampling))
        for file, name in zip(files, names, strict=True)
    ]
    provenance = provenance_of_files(files)
    identity = identity_of("passk", [*(provenance.files or {}).values()])
    folder = report_folder(root, f"passk-{files[0].path.stem}-{identity[:8]}")
    document = passk_document(lines, provenance, ks)
    return replace(document, notes=tuple(file_notes(files))).write(folder)


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
            f"{listed[0].path} and {listed[1].path} have no common problem: they begin "
            f"with '{texts[0]}' and '{texts[1]}'",
            "give logs of the same benchmark; questions may differ if every ID has "
            "the same reference answer",
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
