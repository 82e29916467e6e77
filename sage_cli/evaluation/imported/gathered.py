"""Foreign samples by problem, checked: what is to be stored, before anything is written."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property

from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import refuse_two_golds
from sage_cli.evaluation.imported.foreign import ForeignFile, ForeignSample
from sage_cli.grading.extract import AnswerTags, extract
from sage_cli.models.policies.prompting import NO_GOLD, PROBLEMS
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.judging import IMPORTED_JUDGE

_STORABLE = {"tokens": range(2**31), "seed": range(-(2**63), 2**63)}


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
        content = {id_: [astuple(one) for one in of] for id_, of in self.samples.items()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def right(self) -> int:
        """The samples that the program found right."""
        return sum(bool(sample.right) for of in self.samples.values() for sample in of)

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
            "write rows with `gold` or `correct`, and import them with --from jsonl",
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
    boxed = any(extract(one.text, tags, "tags-then-boxed") is not None for one in file.samples)
    found = {"extract": "tags-then-boxed"} if boxed else {"extract": "text", "mode": "math-verify"}
    return {**found, **({"judge": IMPORTED_JUDGE} if file.has_verdicts else {})}
