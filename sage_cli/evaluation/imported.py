"""Samples of other programs: read from their files, and stored as a run's."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.benchmarks import refuse_two_golds
from sage_cli.evaluation.stored import imported_set
from sage_cli.file_hash import file_hash
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import AnswerTags, extract
from sage_cli.models.folders import WEIGHTS_FILE
from sage_cli.models.policy import NO_GOLD, PROBLEMS
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.rows import Row, as_text
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.store.annotations import GradeStore
from sage_cli.store.files import identity_of, write_json, write_text
from sage_cli.store.run import IMPORTED, Run
from sage_cli.store.sample_parts import Completion, encodable

Taken = TypeVar("Taken")

SETTINGS = ("model", "temperature", "top_p", "max_tokens", "seed")
"""Settings of sampling that matter for a comparison; a file may say some of them."""

TEXTS = ("problem", "question", "text", "gold", "extracted")
"""The fields of a sample that hold texts."""


@dataclass(frozen=True, slots=True)
class ForeignSample:
    """A completion of a problem; None stands for what the file doesn't say.

    `problem` is the program's own id. `text` is None for a choice by likelihoods. `right` is the
    verdict, `extracted` the answer that it is about.
    """

    problem: str
    question: str
    text: str | None
    gold: str | None = None
    right: bool | None = None
    extracted: str | None = None
    tokens: int | None = None
    finish_reason: Literal["stop", "length"] | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ForeignFile:
    """The samples of a file in its order.

    `score` is the program's name of the verdict, `settings` what the file says of `SETTINGS` and
    of the program, `notes` say what of the file was not taken.
    """

    program: str
    samples: Sequence[ForeignSample]
    score: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def has_verdicts(self) -> bool:
        """Return True if every sample has the program's verdict."""
        return all(sample.right is not None for sample in self.samples)

    @property
    def has_golds(self) -> bool:
        """Return True if every sample has a gold."""
        return all(sample.gold is not None for sample in self.samples)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what the file doesn't say."""
        per_sample = {
            "golds": self.has_golds,
            "verdicts": self.has_verdicts,
            "token counts": all(sample.tokens is not None for sample in self.samples),
            "truncation": all(sample.finish_reason is not None for sample in self.samples),
        }
        absent = [name for name in SETTINGS if self.settings.get(name) is None]
        return (*absent, *(name for name, stated in per_sample.items() if not stated))


@contextmanager
def whole(location: object, expected: str) -> Iterator[None]:
    """Raise DataError where the block finds other values at `location` than a program writes."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise DataError(
            f"{location} can't be read: {type(error).__name__} {error}", expected
        ) from error


def of_each(
    rows: Iterable[Row], take: Callable[[Row], Iterable[Taken]], expected: str
) -> list[Taken]:
    """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
    taken: list[Taken] = []
    for row in rows:
        with whole(row[0], expected):
            taken += take(row)
    return taken


def choose_score(
    values: Iterable[tuple[str, object]], asked: str | None, location: str
) -> tuple[str | None, list[str]]:
    """Return the score called `asked`, by default the first verdict, with a note on the others.

    A score with a value that is no verdict, as a BLEU of 12.3, an F1 of .37 or a word, says nothing
    of right and wrong.
    Raises DataError if such a score or one that is not there is asked for.
    """
    stated = [(name, value) for name, value in values if value is not None]
    names = dict.fromkeys(name for name, _ in stated)
    beyond = {name: str(value)[:60] for name, value in stated if verdict(value) is None}
    if asked in beyond:
        raise DataError(
            f"{location}: {asked} is {beyond[asked]} for a sample, neither right nor wrong",
            "a verdict is 1, 0 or -1: name another score, or leave out --score",
        )
    scores = [name for name in names if name not in beyond]
    if asked is not None and asked not in scores:
        raise DataError(
            f"{location} has no score '{asked}'",
            f"its scores are {', '.join(scores)}" if scores else "leave out --score",
        )
    chosen = asked or (scores[0] if scores else None)
    others = [f"{name} (no verdict: {beyond[name]})" if name in beyond else name for name in names]
    others = [other for other in others if other != chosen]
    several = asked is None and len(scores) > 1
    hint = f" ({chosen} is taken; --score NAME takes another)" if several else ""
    return chosen, [f"scores not taken: {', '.join(others)}{hint}"] if others else []


def verdict(value: object) -> bool | None:
    """Return True for a score of 1, False for 0 and -1, None for what is no verdict."""
    return value == 1 if isinstance(value, int | float) and value in (-1, 0, 1) else None


def only(value: object, location: str, name: str) -> str:
    """Return a text, or the one text in a list. Raises DataError for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple | dict):
        raise DataError(
            f"{location}: {name} holds {len(value)} values, not one",
            "write rows as {question, gold, completion, correct}, with one gold a problem",
        )
    return as_text(value)


_STORABLE = {"tokens": range(2**31), "seed": range(-(2**63), 2**63)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_FOLDERS = frozenset({"reports", "runs", "samples", "suites", "sweeps"})


@dataclass(frozen=True)
class Gathered:
    """Problems by id, and the samples of each in the file's order.

    `left_out` counts samples of problems that repeat another's question and gold.
    """

    problems: Mapping[str, Problem]
    samples: Mapping[str, Sequence[ForeignSample]]
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
            bool(sample.right) for of_problem in self.samples.values() for sample in of_problem
        )

    def in_words(self) -> str:
        """Return how many problems and samples there are."""
        several = f"{self.n}" if self.n == self.most else f"{self.n} to {self.most}"
        return f"{len(self.problems):,} problems x {several} samples"


def gathered(file: ForeignFile, path: object) -> Gathered:
    """Return a file's samples by problem.

    Raises DataError for a problem without question, for an id or a question with two golds, for a
    seed or number of tokens that can't be stored, and where there is neither a gold nor a verdict
    for every sample.
    """
    if not file.has_verdicts and not file.has_golds:
        raise DataError(
            f"{path} has neither a verdict nor a gold for every sample: nothing says what is right",
            "write rows {question, completion} with `gold` or `correct`",
        )
    key_of: dict[str, str] = {}
    problems: dict[str, Problem] = {}
    samples: defaultdict[str, list[ForeignSample]] = defaultdict(list)
    owner: dict[str, str] = {}
    left_out = 0
    for sample in file.samples:
        problem = _problem(sample, path)
        if key_of.setdefault(sample.problem, problem.id) != problem.id:
            raise DataError(
                f"{path}: problem {sample.problem} stands there with two questions or two golds",
                "give different problems different ids",
            )
        if owner.setdefault(problem.id, sample.problem) != sample.problem:
            left_out += 1
            continue
        problems.setdefault(problem.id, problem)
        samples[problem.id].append(sample)
    refuse_two_golds(str(path), list(problems.values()))
    return Gathered(problems, samples, left_out)


def _problem(sample: ForeignSample, path: object) -> Problem:
    for name, storable in _STORABLE.items():
        value = getattr(sample, name)
        if not (value is None or (isinstance(value, int) and value in storable)):
            raise DataError(
                f"{path}: problem {sample.problem} has {name} {value!r}, no whole number that can "
                "be stored",
                f"mend or remove its {name}",
            )
    question, gold = sample.question.strip(), (sample.gold or "").strip() or NO_GOLD
    if not question:
        raise DataError(f"{path}: problem {sample.problem} has no question")
    id_ = problem_id(PROBLEMS, question, gold)
    return Problem(id_, PROBLEMS, question, gold, {"id": sample.problem})


def grading_settings(file: ForeignFile) -> dict[str, str]:
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
            f"--as {name}: a name is of letters, digits, _, . and -, and no folder's of sage",
            "for example --as their-model",
        )
    run = Run(root / name, identity_of(IMPORTED, samples.fingerprint))
    taken = run.folder.exists() and not run.begun
    if taken or (run.begun and run.manifest.get("identity") != run.planned):
        raise StoreError(
            f"{run.folder} exists already and holds something else",
            f"choose another name, or `sage runs remove {name}` first",
        )
    return run


def refuse_unreadable(file: ForeignFile, samples: Gathered, path: Path) -> None:
    """Raise DataError for samples without texts, and golds to compare that `math` can't read."""
    if any(sample.text is None for sample in file.samples):
        raise DataError(
            f"{path} was answered by likelihoods, or says how many answers are right, not which",
            f"`sage passk {path}` and `sage compare` count its verdicts as they are",
        )
    if file.has_verdicts:
        return
    golds = [(problem.meta["id"], problem.gold) for problem in samples.problems.values()]
    if refused := check_golds(golds):
        raise DataError(
            f"{path} has no verdicts, and {len(refused)} golds are not graded right as answers to "
            f"themselves: {', '.join(map(str, refused[:5]))}",
            "mend these golds, or write rows with `correct`",
        )


def store(run: Run, path: Path, file: ForeignFile, samples: Gathered) -> None:
    """Write the run: its problems, samples, verdicts as grades, and where all that came from."""
    name = encodable(path.name)
    about = {
        "program": file.program,
        "file": name,
        "sha256": file_hash(path),
        "score": file.score,
        "settings": {key: value for key, value in file.settings.items() if value is not None},
        "unknown": list(file.unknown),
    }
    seed = file.settings.get("seed")
    with run.recording(
        _config(file, samples),
        kind=IMPORTED,
        parent=None,
        seed=seed if isinstance(seed, int) else 0,
        template=IMPORTED,
        data=name,
    ) as recorded:
        recorded.note(imported=about, weights=samples.fingerprint)
        write_json(run.model / WEIGHTS_FILE, {"fingerprint": samples.fingerprint})
        write_text(run.folder / PROBLEMS, _problem_lines(samples))
        _store_samples(run.folder.parent, file, samples)


def _config(file: ForeignFile, samples: Gathered) -> dict[str, Any]:
    """Return the configuration under which the samples count."""
    flags: Mapping[str, Any] = {
        "evaluation": {"benchmark": PROBLEMS, "samples": samples.n, "k": f"1..{samples.n}:pow2"},
        "grading": grading_settings(file),
        "tracking": {"wandb": "off"},
    }
    return load((), flags, (), {}).config.model_dump(mode="json")


def _problem_lines(samples: Gathered) -> str:
    rows = (
        {"question": problem.question, "gold": problem.gold, "id": problem.meta["id"]}
        for problem in samples.problems.values()
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _store_samples(root: Path, file: ForeignFile, samples: Gathered) -> None:
    """Store completions and, where each has one, verdicts; what is there is not written again."""
    stored = imported_set(root, samples.fingerprint)
    with stored.writing({"engine": f"imported from {file.program}"}) as writer:
        for n in sorted({len(of_problem) for of_problem in samples.samples.values()}):
            ids = [id_ for id_, of_problem in samples.samples.items() if len(of_problem) >= n]
            while claimed := writer.claim(ids, n):
                for id_, indices in claimed.items():
                    for index in indices:
                        writer.add(_completion(id_, index, samples))
    if not file.has_verdicts:
        return
    grades = GradeStore(stored, {"judge": IMPORTED_JUDGE})
    for rows in grades.missing(samples.problems, samples.most):
        grades.add([(row, *_grade(row, samples)) for row in rows])
    grades.flush()


def _completion(id_: str, index: int, samples: Gathered) -> Completion:
    sample = samples.samples[id_][index]
    reason = sample.finish_reason or "stop"
    return Completion(id_, index, sample.seed or 0, sample.text or "", sample.tokens or 0, reason)


def _grade(row: Completion, samples: Gathered) -> tuple[str, str | None]:
    sample = samples.samples[row.problem_id][row.index]
    return "right" if sample.right else "wrong", sample.extracted
