"""Which samples of a log are of one problem."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sage_cli.counted import counted
from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log, LogSample, abbreviate, with_choices
from sage_cli.problems.load import check_one_gold
from sage_cli.problems.problem import NO_GOLD, PROBLEMS, Problem, problem_id

_STORABLE = {"tokens": range(2**31), "seed": range(-(2**63), 2**63)}
_SHOWN = 5


@dataclass(frozen=True)
class Gathered:
    """Problems by the program's id, and the samples of each in the file's order.

    `notes` say how samples were put together, and what a reader of the numbers has to know.
    """

    problems: Mapping[str, Problem]
    samples: Mapping[str, Sequence[LogSample]]
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The samples that every problem has."""
        return min(map(len, self.samples.values()))

    @property
    def most(self) -> int:
        """The largest number of samples of a problem."""
        return max(map(len, self.samples.values()))

    @property
    def right(self) -> int:
        """The samples that the program found correct."""
        return sum(bool(sample.correct) for group in self.samples.values() for sample in group)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of all that is stored, in the place of weights."""
        content = {
            id_: [_stored(sample) for sample in of_problem]
            for id_, of_problem in self.samples.items()
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def in_words(self) -> str:
        """Return how many problems and samples there are."""
        several = f"{self.n}" if self.n == self.most else f"{self.n} to {self.most}"
        return f"{len(self.problems):,} problems x {several} samples"

    def by_content(self) -> Gathered:
        """Return it under the ids that stored problems have, which are those of their content.

        Problems of equal question and gold under several ids become one, with a note. Raises
        DataError for a question with two golds, which no stored benchmark may have.
        """
        problems: dict[str, Problem] = {}
        samples: defaultdict[str, list[LogSample]] = defaultdict(list)
        for id_, problem in self.problems.items():
            problems.setdefault(problem.id, problem)
            samples[problem.id] += self.samples[id_]
        merged = len(self.problems) - len(problems)
        check_one_gold("the file", list(problems.values()))
        note = f"{counted(merged, 'problem')} of another's question and gold: stored as one with it"
        return Gathered(problems, samples, (*self.notes, *[note] * bool(merged)))


def _stored(sample: LogSample) -> tuple[object, ...]:
    """Return what is stored of a sample; without choices, as it was before there were any."""
    stored = (
        sample.problem,
        sample.question,
        sample.text,
        sample.gold,
        sample.correct,
        sample.extracted,
        sample.tokens,
        sample.finish_reason,
        sample.seed,
    )
    return (*stored, sample.choices) if sample.choices else stored


def gather(log: Log, path: object) -> Gathered:
    """Return a log's samples by problem.

    Raises DataError for a problem without question, for an id or a question with two golds, for a
    seed or number of tokens that can't be stored, where nothing says whether ids are problems' or
    samples', and where there is neither a gold nor a verdict for every sample.
    """
    if not log.has_verdicts and not (log.has_golds and log.has_texts):
        raise DataError(
            (
                f"{path} has neither a verdict nor a reference answer for every sample, so "
                "that nothing can be graded"
            )
            + "".join(f"; {note}" for note in log.notes),
            "name the column that says it: --fields correct=COLUMN or --fields gold=COLUMN, a file "
            "of golds by id with --golds FILE, or another --score",
        )
    samples, notes = log.samples, list[str]()
    if not log.ids_name_problems:
        samples, notes = _with_problems_ids(samples, path)
    problems: dict[str, Problem] = {}
    grouped: defaultdict[str, list[LogSample]] = defaultdict(list)
    for sample in samples:
        grouped[sample.problem].append(sample)
        if (first := grouped[sample.problem][0]).content != sample.content:
            raise DataError(
                (
                    f"{path}: problem {sample.problem} appears with different questions or "
                    "reference answers"
                )
                + (f" ({first.where} and {sample.where})" if sample.where else ""),
                "give different problems different ids, and each evaluation its own file",
            )
        if len(grouped[sample.problem]) == 1:
            problems[sample.problem] = _problem(sample, path)
        _check_storable(sample, path)
    if not log.ids_name_problems:
        check_one_gold(str(path), list(problems.values()))
    notes += _doubts(log, grouped)
    return Gathered(problems, grouped, tuple(notes))


def _with_problems_ids(
    samples: Sequence[LogSample], path: object
) -> tuple[Sequence[LogSample], list[str]]:
    """Return the samples with ids that are problems', where a file's own may be samples'.

    Ids that occur once each, while question, choices and gold repeat, are samples': each problem
    then has the id of its first sample. Ids that repeat are problems'. Raises DataError for a
    mixture.
    """
    times = Counter(sample.problem for sample in samples)
    ids_of: defaultdict[object, dict[str, None]] = defaultdict(dict)
    for sample in samples:
        ids_of[sample.content][sample.problem] = None
    shared = [list(ids) for ids in ids_of.values() if len(ids) > 1]
    if not shared or min(times.values()) > 1:
        return samples, []
    if max(times.values()) > 1 or len(shared) < len(ids_of):
        ids = ", ".join(abbreviate(id_) for id_ in shared[0][:2])
        raise DataError(
            f"{path}: some ids share a question and its gold ({ids}), and others don't: they may "
            "be samples of one problem, or problems whose choices the file lacks",
            "say which column names a problem, for example --fields problem=id, or "
            "--fields problem=question if equal questions are one problem",
        )
    first_of = {content: next(iter(ids)) for content, ids in ids_of.items()}
    note = (
        f"its {counted(len(times), 'id')} occur once each, and question and gold repeat: an id is "
        f"a sample's, and there are {counted(len(ids_of), 'problem')}"
    )
    return [replace(sample, problem=first_of[sample.content]) for sample in samples], [note]


def _doubts(log: Log, grouped: Mapping[str, Sequence[LogSample]]) -> list[str]:
    """Return what makes the counts of a log less than they seem."""
    notes = []
    if log.planned is not None and log.planned > len(grouped):
        missing = log.planned - len(grouped)
        notes.append(
            f"{missing:,} of {counted(log.planned, 'planned problem')} "
            f"{'have' if missing > 1 else 'has'} no sample, and pass@k is the mean over the others"
        )
    sizes = sorted({len(samples) for samples in grouped.values()})
    if len(sizes) > 1:
        fewest = next(id_ for id_, samples in grouped.items() if len(samples) == sizes[0])
        notes.append(
            f"problems have {sizes[0]} to {sizes[-1]} samples (fewest: {abbreviate(fewest)}): "
            f"k goes up to {sizes[0]}"
        )
    cut = sum(sample.finish_reason == "length" for sample in log.samples)
    if cut:
        share = cut / len(log.samples)
        notes.append(
            f"{counted(cut, 'sample')} of {len(log.samples):,} ({share:.0%}) cut off at the token "
            "limit: counted by their verdict"
        )
    empty = sum(sample.text == "" for sample in log.samples)
    if empty:
        notes.append(f"{counted(empty, 'sample')} without an answer: counted by their verdict")
    contents = Counter(samples[0].content for samples in grouped.values())
    equal = sum(n for n in contents.values() if n > 1)
    if equal:
        notes.append(
            f"{counted(equal, 'problem')} share question, choices and gold with another: counted "
            "apart, since their ids differ"
        )
    return notes


def _problem(sample: LogSample, path: object) -> Problem:
    question, choices, gold = sample.content
    if not question:
        raise DataError(f"{path}: problem {sample.problem} has no question")
    question = with_choices(question, choices)
    id_ = problem_id(PROBLEMS, question, gold or NO_GOLD)
    meta = {**sample.fields, "id": sample.problem}
    return Problem(id_, PROBLEMS, question, gold or NO_GOLD, meta)


def _check_storable(sample: LogSample, path: object) -> None:
    for name, storable in _STORABLE.items():
        value = getattr(sample, name)
        if not (value is None or (isinstance(value, int) and value in storable)):
            raise DataError(
                f"{path}: problem {sample.problem} has {name} {value!r}, which is not "
                "a whole number that can be stored",
                f"fix or remove its {name}",
            )
