"""Files of samples or counts, counted as they are and matched problem by problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.file_judge import FileJudge
from sage_cli.evaluation.logs.log import Log, ReadOptions, abbreviate
from sage_cli.evaluation.logs.problems import gather
from sage_cli.evaluation.logs.registry import detect_program, read_log
from sage_cli.evaluation.logs.row_fields import Owners, as_id, is_correct
from sage_cli.file_hash import read_hash
from sage_cli.metrics import Counts, curve, curve_ks, pooled
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.policy import Labels, named_policy
from sage_cli.problems.problem import NO_GOLD, Problem
from sage_cli.problems.row_files import is_row_file, read_file
from sage_cli.progress import Progress
from sage_cli.reports.document import Report, report_folder
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.settings.evaluation import EvaluationSection
from sage_cli.settings.k_values import parse_ks
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Runs
from sage_cli.store.surroundings import surroundings

if TYPE_CHECKING:
    from sage_cli.evaluation.evaluate import Evaluation

EXPECTED = (
    "a row is {problem, correct} for one sample, or {problem, n, c} for all samples of one; other "
    "columns are named by --fields problem=task,correct=is_correct"
)
_SHOWN = 5


@dataclass(frozen=True)
class CountedFile:
    """A file's counts under the ids that it gives its problems.

    `problems` are by id, none for a file of counts; `log` is what another program's file says
    besides its samples. `notes` say what was left out, and what makes the counts less than they
    seem. `judge` is the identity of the judge of ours that graded it, if one did.
    """

    path: Path
    counts: Counts
    problems: Mapping[str, Problem] = field(default_factory=dict)
    log: Log = field(default_factory=lambda: Log("counts", ()))
    notes: tuple[str, ...] = ()
    judge: Mapping[str, Any] | None = None
    graded_in: Path | None = None

    @property
    def task(self) -> str | None:
        """The name of the benchmark, None where the file doesn't say it."""
        return self.log.settings.get("task")

    @property
    def score(self) -> str | None:
        """What decides which samples are correct: a score of the file, or a judge of ours."""
        return self.log.score if self.judge is None else f"sage's judge {self.judge['judge']}"

    def as_json(self) -> dict[str, Any]:
        """Return what was read of the file, what was left out of it, and who graded it."""
        return {
            "file": str(self.path),
            "program": self.log.program,
            "score": self.score,
            "problems": len(self.counts),
            "samples": int(self.counts.n_P.sum()),
            "left_out": dict(self.log.left_out),
            "judge": None if self.judge is None else dict(self.judge),
            "graded_in": None if self.graded_in is None else str(self.graded_in),
            "notes": list(self.notes),
        }


def read_counted_files(
    names: Sequence[str],
    scores: Sequence[str] = (),
    reading: ReadOptions | None = None,
    judge: FileJudge | None = None,
) -> list[CountedFile]:
    """Return the files' counts under the named score, or a score for each file.

    `reading.field` is of the first file, whose problems stand for those of all. Files without
    verdicts are graded by `judge`, if they have golds. Raises DataError for a file of which nothing
    says whether each sample is correct, and ConfigurationError for settings of grading that grade
    nothing.
    """
    if len(scores) not in (0, 1, len(names)):
        raise ConfigurationError(
            f"--score was given {len(scores)} times for {len(names)} files",
            "give it once for all files, or once per file in their order",
        )
    taken = scores if len(scores) == len(names) else [*scores, None][:1] * len(names)
    reading = reading or ReadOptions()
    fields = [reading.field, *[None] * len(names)]
    files = [
        _read(Path(name), replace(reading, score=score, field=field), judge)
        for name, score, field in zip(names, taken, fields, strict=False)
    ]
    if judge is not None and all(file.judge is None for file in files):
        judge.check_grading_settings([file.path for file in files])
    return files


def _read(path: Path, reading: ReadOptions, judge: FileJudge | None) -> CountedFile:
    if not path.is_file():
        raise DataError(
            f"there is no file {path}",
            "check the path; only `sage compare` and `sage power` take files and runs together",
        )
    if _holds_counts(path, reading):
        return CountedFile(path, read_counts(path, reading.fields))
    log = read_log(path, reading)
    by_judge = judge is not None and judge.is_asked_for and log.has_golds and log.has_texts
    samples = gather(log, path)
    notes = [_announced(log), *log.all_notes, *samples.notes]
    problems = {str(row.meta["id"]): row for row in samples.problems.values()}
    if log.has_verdicts and not by_judge:
        groups = zip(problems, samples.samples.values(), strict=True)
        counts = Counts.of(
            {
                id_: (len(group), sum(sample.correct is True for sample in group))
                for id_, group in groups
            }
        )
        return CountedFile(path, counts, problems, replace(log, samples=()), tuple(notes))
    if judge is None or (log.graded_otherwise and not by_judge):
        raise DataError(
            f"{path} does not say which samples are correct: "
            + ("; ".join(log.notes) or f"not every row has {log.score or 'a score'}"),
            "name a score of 0 and 1 with --score, or let sage's judge compare the golds: "
            "--set grading.judge=math",
        )
    of_content = samples.by_content()
    graded = judge.grade(log, of_content, path)
    notes = [*notes[:1], graded.note, *log.all_notes, *of_content.notes]
    kept = {str(row.meta["id"]): row for row in of_content.problems.values()}
    return CountedFile(
        path,
        graded.counts,
        kept,
        replace(log, samples=()),
        tuple(notes),
        graded.judge,
        graded.folder,
    )


def _holds_counts(path: Path, reading: ReadOptions) -> bool:
    """Return True for a file of no program, whose rows have counts or verdicts alone."""
    if {"n", "c"} & reading.fields.keys():
        return True
    if "correct" in reading.fields:
        return False
    try:
        detect_program(path)
    except DataError:
        if not is_row_file(path):
            raise
        first = next((row for _, row in read_file(path, inside="problems")), {})
        counts = {"problem", "n", "c", "correct"} & {str(name).strip() for name in first}
        # a program's file that isn't recognised gets the message that names its columns
        if not first or counts or "problem" in reading.fields:
            return True
        raise
    return False


def _announced(log: Log) -> str:
    """Return which program's form was detected, and what says which samples are correct."""
    announced = f"correct by {log.score}" if log.score and log.has_verdicts else "without verdicts"
    return f"read as {log.program}: {counted(len(log.samples), 'sample')}, {announced}"


def read_counts(path: Path, fields: Mapping[str, str] | None = None) -> Counts:
    """Return the counts of a file whose rows are samples or counts; its columns say which.

    `correct` is true/false or 1/0, or in JSON a list of them. JSON is a list of rows, or an
    object whose `problems` is one. `fields` are the columns by what they hold, where they have
    other names. Raises DataError naming the malformed rows by number.
    """
    n: defaultdict[str, int] = defaultdict(int)
    c: defaultdict[str, int] = defaultdict(int)
    complaints = []
    summarised: set[str] = set()
    owners = Owners((fields or {}).values())
    for location, values in read_file(path, inside="problems"):
        row = _renamed(values, fields or {})
        try:
            problem, samples, right, is_count = _counted(row)
            if problem in summarised or (is_count and problem in n):
                raise ValueError(f"problem '{problem}' was counted before")
        except ValueError as error:
            complaints.append(f"{location}: {error}")
            continue
        try:
            owners.check_same(problem, (location, row))
        except DataError as error:
            complaints.append(error.cause)
            continue
        if is_count:
            summarised.add(problem)
        n[problem] += samples
        c[problem] += right
    if complaints:
        more = len(complaints) - _SHOWN
        listed = complaints[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        raise DataError("\n".join(listed), EXPECTED)
    if not n:
        raise DataError(f"{path} has no rows", EXPECTED)
    return Counts.of({problem: (n[problem], c[problem]) for problem in n})


def _renamed(values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row under the names that counts have, without the blanks around a name."""
    row = {str(name).strip(): value for name, value in values.items()}
    return {**row, **{name: row.get(column) for name, column in fields.items()}}


def _counted(row: Mapping[str, Any]) -> tuple[str, int, int, bool]:
    """Problem, samples, correct ones, and True if the row is the count of its problem."""
    problem = None if isinstance(row.get("problem"), bool | list | dict) else row.get("problem")
    problem = as_id(problem.strip() if isinstance(problem, str) else problem)
    if problem is None:
        raise ValueError("no 'problem' (a name or a number)")
    if "correct" in row:
        given = row["correct"]
        grades = [is_correct(value) for value in (given if isinstance(given, list) else [given])]
        if not grades:
            raise ValueError("'correct' is an empty list")
        return problem, len(grades), sum(grades), False
    n, c = _whole(row, "n"), _whole(row, "c")
    if c > n:
        raise ValueError(f"problem '{problem}': c = {c} is more than n = {n}")
    if n == 0:
        raise ValueError(f"problem '{problem}' has no samples (n = 0)")
    return problem, n, c, True


def _whole(row: Mapping[str, Any], name: str) -> int:
    """Return a count, which pandas writes as 4.0."""
    if row.get(name) in (None, ""):
        raise ValueError(f"neither 'correct' nor '{name}'")
    text = str(row[name]).strip()
    whole, _, zeros = text.partition(".")
    if not whole.isdecimal() or zeros.strip("0") or (not zeros and "." in text):
        raise ValueError(f"{name} is {row[name]!r}, not a whole number")
    return int(whole)


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
            f"pass@{k} is undefined with {n} sample{'s' * (n > 1)} of problem "
            f"{abbreviate(problem)} in {fewest.path} (k > n)",
            f"use k up to {n}, or evaluate {k} times (in Inspect --epochs {k})",
        )
    return parsed


def provenance_of_files(files: Sequence[CountedFile]) -> Provenance:
    """Return the hashes of the files, and what is known before anything is measured."""
    hashes = {str(file.path): read_hash(file.path) for file in files}
    return replace(Provenance.here(surroundings()), files=hashes or None)


def file_notes(files: Sequence[CountedFile]) -> list[str]:
    """Return what differs between the files' evaluations, and what of each was not taken."""
    stated = [{"score": file.score, **file.log.settings} for file in files]
    notes = [
        f"the files differ in {name}: {', '.join(str(settings.get(name)) for settings in stated)}"
        for name in ("task", "score", "temperature", "top_p", "max_tokens")
        if len({settings.get(name) for settings in stated} - {None}) > 1
    ]
    return notes + [f"{file.path}: {note}" for file in files for note in file.notes]


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
    data = {**document.data, "files": [file.as_json() for file in files]}
    notes = (*file_notes(files), *document.notes)
    return replace(document, data=data, notes=notes).write(folder)


def measured_as_files(
    evaluation: Evaluation, names: Sequence[str], progress: Progress
) -> tuple[dict[str, CountedFile], Provenance]:
    """Return by name what runs and models have on one benchmark, to be matched with files.

    Raises ConfigurationError for several benchmarks.
    """
    if len(evaluation.benchmarks) != 1:
        raise ConfigurationError(
            f"{len(evaluation.benchmarks)} benchmarks can't be matched with a file",
            "name the file's with --benchmark NAME",
        )
    (benchmark,), config = evaluation.benchmarks, evaluation.config
    runs = Runs(config.run.root)
    policies = {name: named_policy(name, runs, config.model) for name in names}
    evaluated = evaluation.measure(list(policies.values()), progress)
    problems = {
        problem.id: replace(problem, meta={"id": problem.id}) for problem in benchmark.problems
    }
    sampling = {name: getattr(config.sampling, name) for name in ("temperature", "max_tokens")}
    files = {}
    for name, policy in policies.items():
        seeds = evaluated.measured[benchmark.name, policy.label]
        about = {"model": policy.label, "task": benchmark.name, **sampling}
        log = Log("sage", (), f"sage's judge {benchmark.judge}", about)
        note = f"measured on {benchmark.name} with a prompt of its own, matched by question"
        counts = pooled([seed.counts for seed in seeds])
        files[name] = CountedFile(Path(name), counts, problems, log, (note,))
    return files, evaluated.provenance


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
        texts = [
            abbreviate(next(iter((*_ids_by_question(file), *file.counts.problem_ids))))
            for file in listed
        ]
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
        taken = {*own}
        counts.append(replace(file.counts.select(own), problem_ids=tuple(ids), grades=None))
        if alone := [id_ for id_ in file.counts.problem_ids if id_ not in taken]:
            unmatched[str(file.path)] = alone
            shown = [*map(abbreviate, alone[:_SHOWN]), *["..."] * (len(alone) > _SHOWN)]
            left_out = counted(len(alone), "problem")
            notes.append(f"left out of {file.path}: {left_out}, {', '.join(shown)}")
        pairs = {id_: (first.problems.get(id_), file.problems.get(match[id_])) for id_ in ids}
        by_id |= {id_ for id_, (a, b) in pairs.items() if a and b and _words(a) != _words(b)}
    if by_id:
        notes.append(f"{len(by_id):,} problems matched by id and gold: other words in the question")
    return counts, unmatched, notes


def _matches(first: CountedFile, other: CountedFile) -> dict[str, str]:
    """Return the other's id of each of the first's problems that it has.

    Problems with the same question are the same; of several with one question those with the same
    id, else those in the same place among them. Ids alone are believed of files of counts; of
    two logs with different questions, as under two prompts, where all golds agree and the tasks
    have one name: ids are 1, 2, 3 in many benchmarks.
    """
    ours, theirs = _ids_by_question(first), _ids_by_question(other)
    same: dict[str, str] = {}
    for words, ids in ours.items():
        others = theirs.get(words, [])
        shared = {id_ for id_ in ids if id_ in others}
        same |= {id_: id_ for id_ in shared}
        left = [id_ for id_ in others if id_ not in shared]
        same |= dict(zip((id_ for id_ in ids if id_ not in shared), left, strict=False))
    known = {*other.counts.problem_ids} - {*same.values()}
    rest = {id_: id_ for id_ in first.counts.problem_ids if id_ in known and id_ not in same}
    if first.problems and other.problems:
        golds = [(first.problems[id_].gold, other.problems[id_].gold) for id_ in rest]
        if first.task != other.task or any(a != b or a == NO_GOLD for a, b in golds):
            return same
    return same | rest


def _ids_by_question(file: CountedFile) -> dict[str, list[str]]:
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for id_, problem in file.problems.items():
        ids[_words(problem)].append(id_)
    return ids


def _words(problem: Problem) -> str:
    return " ".join(problem.question.split())
