"""Completions to grades: extraction, a bounded memory, quick judgement, workers for the rest."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

from sage_cli.grading.grades import (
    GRADING_VERSION,
    AnswerTags,
    Grade,
    GraderIdentity,
    Judged,
    extract,
)
from sage_cli.grading.judges import find_judge, label_of
from sage_cli.grading.mathematics.notation import MAX_LENGTH, gold_text
from sage_cli.grading.workers import WorkerPool, WorkerProcess
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.solution_text import CLOSE, Extraction, Unfinished, each_gold, is_open

_REMEMBERED = 65_536
_MAX_TEXT = 100_000
"""Characters of a whole completion that are searched for an answer, and of what a function of one's
own is given: a program, or tests."""
_GRACE_S = 1.0
"""Time of a worker beyond its own whole-second alarms before it is killed."""

Pair = tuple[str, str]
log = logging.getLogger(__name__)


class Grader:
    """Grades completions against golds; a context manager, because it keeps worker processes.

    `judge` is the kind of answer, `mode` the strictness of mathematics (`strict` or `math-verify`),
    `tolerance` is relative and None where answers must be exact. `extract` is the place of the
    answer (see `grades.extract`); `boxed` is short for `extract="boxed"`. `unfinished` says what a
    completion is that ends inside a thought. A pair has `timeout_s` whole
    seconds, and a worker may grow by `memory_mb`. Workers start with the first pair that needs
    one. `identity` is all of that but the number of workers: the key of stored grades.

    Only mathematics is searched for in a whole text: under `text` other judges take the tags. One
    that `sees_text` is a function of question, completion and gold, and `extract` is `text`; a gold
    is the JSON list of question and gold.
    Raises ConfigurationError for an unknown judge or mode, and for `text` under `strict`.
    """

    def __init__(
        self,
        workers: int = 2,
        mode: str = "strict",
        judge: str = "math",
        timeout_s: int = 5,
        memory_mb: int = 1024,
        tolerance: float | None = None,
        answer_open: str = AnswerTags.open,
        answer_close: str = AnswerTags.close,
        boxed: bool = False,
        extract: Extraction | None = None,
        unfinished: Unfinished = "wrong",
        *,
        sees_text: bool = False,
    ) -> None:
        place: Extraction = extract or ("boxed" if boxed else "tags")
        if place == "text" and judge != "math" and not sees_text:
            place = "tags"
        self._judge = find_judge(judge, mode, place)
        code = OwnFunction.parse(judge).identity if names_code(judge) else None
        self.identity = GraderIdentity(
            mode=mode,
            judge=label_of(judge),
            tolerance=tolerance,
            answer_open=answer_open,
            answer_close=answer_close,
            extract=place,
            timeout_s=timeout_s,
            memory_mb=memory_mb,
            unfinished=unfinished,
            version=f"{GRADING_VERSION}, {code}" if code else str(GRADING_VERSION),
        )
        start = partial(WorkerProcess, memory_mb, judge, mode, place)
        self.pool = WorkerPool(workers, start, impatient=judge == "math")
        self._tags, self._place = AnswerTags(answer_open, answer_close), place
        is_function = names_code(judge)
        self._longest = _MAX_TEXT if place == "text" or is_function else MAX_LENGTH
        self._longest_gold = _MAX_TEXT if is_function else MAX_LENGTH
        self._known: OrderedDict[Pair, Judged] = OrderedDict()
        self._lock = threading.Lock()
        self._judge_failed = False

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def grade_many(self, pairs: Iterable[tuple[object, object]]) -> list[Grade]:
        """Return a grade for each (gold, completion), in order; never raises, whatever they are.

        Of several golds, of which any is right, the best grade counts.
        """
        pairs = list(pairs)
        asked = [(each_gold(gold_text(gold)), completion) for gold, completion in pairs]
        grades = iter(self._graded([(gold, text) for golds, text in asked for gold in golds]))
        best = (
            next(grades)
            if len(golds) == 1
            else max((next(grades) for _ in golds), key=attrgetter("reward"))
            for golds, _ in asked
        )
        return [
            replace(grade, reason=self._reason(*pair, grade))
            if grade.status in ("unparseable", "timeout", "error")
            else grade
            for pair, grade in zip(pairs, best, strict=True)
        ]

    def _graded(self, pairs: Sequence[tuple[str, object]]) -> list[Grade]:
        """Return a grade for each pair; equal (gold, answer) pairs are judged once."""
        read = [(gold, self._extracted(completion)) for gold, completion in pairs]
        judged: dict[Pair, Judged | None] = {}
        for gold, answer in read:
            if answer is not None and (gold, answer) not in judged:
                judged[gold, answer] = self._quick(gold, answer)
        undecided = [pair for pair, status in judged.items() if status is None]
        for pair, status in zip(undecided, self._full(undecided), strict=True):
            judged[pair] = status
            if status != "error":
                self._remember((pair[0], pair[1].strip()), status)
        searched = self._place == "text"  # a whole text that was searched is no answer
        grades = {
            pair: Grade.from_judged(
                "error" if status is None else status, None if searched else pair[1]
            )
            for pair, status in judged.items()
        }
        return [
            Grade(
                ("wrong" if self._is_cut(completion) else "unparseable") if gold else "error", None
            )
            if answer is None
            else grades[gold, answer]
            for (gold, answer), (_, completion) in zip(read, pairs, strict=True)
        ]

    def grade(self, gold: object, completion: object) -> Grade:
        """Return the grade of one completion."""
        return self.grade_many([(gold, completion)])[0]

    def _extracted(self, completion: object) -> str | None:
        if not isinstance(completion, str) or self._is_cut(completion):
            return None
        closed = completion.rfind(CLOSE)
        if closed >= 0 and self._place != "text":
            # a thought may quote the tags; its answer counts where none stands behind it
            answer = extract(completion[closed + len(CLOSE) :], self._tags, self._place)
            if answer is not None:
                return answer
        return extract(completion, self._tags, self._place)

    def _reason(self, gold: object, completion: object, grade: Grade) -> str:
        """Return why the answer is neither right nor wrong."""
        if grade.status == "timeout":
            return f"the comparison took more than {self.identity.timeout_s} s"
        if grade.status == "error":
            if not gold_text(gold) and isinstance(gold, str):
                return "the gold is blank"
            if not gold_text(gold):
                return f"the gold is no text or finite number: {str(gold)[:100]}"
            if len(gold_text(gold)) > self._longest_gold:
                return f"the gold has more than {self._longest_gold:,} characters"
            return f"judge '{self.identity.judge}' can't read the gold, or failed"
        if not isinstance(completion, str):
            return "the completion is no text"
        if grade.extracted is None and self._place != "text":
            box, tags = r"\boxed{}", f"{self._tags.open} ... {self._tags.close}"
            return f"nothing closed stands in {box if self._place == 'boxed' else tags}"
        answer = grade.extracted or completion
        if answer.isspace() or grade.extracted == "":
            return "the answer is blank"
        if len(answer) > self._longest:
            return f"the answer has more than {self._longest:,} characters"
        return f"judge '{self.identity.judge}' can't read the answer"

    def _is_cut(self, completion: object) -> bool:
        """Return True for a thought without an end, where no answer counts."""
        wrong = self.identity.unfinished == "wrong"
        return wrong and isinstance(completion, str) and is_open(completion)

    def _quick(self, gold: str, answer: str) -> Judged | None:
        if not gold or len(gold) > self._longest_gold:
            return "error"
        answer = answer.strip()
        if not answer or len(answer) > self._longest:
            return "unparseable"
        with self._lock:
            remembered = self._known.get((gold, answer))
        if remembered is not None:
            return remembered
        try:
            judged = self._judge.quick(gold, answer, self.identity.tolerance)
        except Exception as error:  # is a status, counted, and doesn't end a training
            self._report_failing_judge(f"{type(error).__name__}: {error}")
            return "error"
        if judged is not None:
            self._remember((gold, answer), judged)
        return judged

    def _full(self, pairs: list[Pair]) -> list[Judged]:
        if not pairs:
            return []
        timeout_s, tolerance = self.identity.timeout_s, self.identity.tolerance
        tasks = [
            {"gold": gold, "answer": answer.strip(), "tolerance": tolerance, "timeout_s": timeout_s}
            for gold, answer in pairs
        ]
        judged = self.pool.run(tasks, timeout_s + _GRACE_S)
        if self.pool.failure is not None:
            self._report_failing_judge(self.pool.failure)
        return judged

    def _report_failing_judge(self, reason: str) -> None:
        """Log it once: a judge that always fails looks like a policy that is always wrong."""
        if not self._judge_failed:
            self._judge_failed = True
            log.warning(
                "judge '%s' fails, and such answers count as errors; the first: %s",
                self.identity.judge,
                reason,
            )

    def _remember(self, pair: Pair, judged: Judged) -> None:
        if len(pair[1]) > MAX_LENGTH:
            return
        with self._lock:
            self._known[pair] = judged
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def grade(gold: object, completion: object) -> Grade:
    """Return the grade of a completion: strict mathematics between <SOLUTION> tags.

    Pairs that exact comparison can't decide go to a worker process that is started once and
    shared. For other tags, judges, modes or many completions use a `Grader`.
    """
    return _shared().grade(gold, completion)


@lru_cache(maxsize=1)
def _shared() -> Grader:
    return Grader(workers=1)


def check_golds(
    golds: Iterable[tuple[str, object]],
    *,
    judge: str = "math",
    mode: str = "strict",
    tolerance: float | None = None,
) -> list[str]:
    """Return the ids of the (id, gold) pairs whose gold, as an answer, is not graded `right`.

    To a function of one's own a gold needn't be an answer (it may be tests that a program has to
    pass), so of one the ids are those where it fails.
    """
    is_function = names_code(judge)
    golds = [(id_, single) for id_, gold in golds for single in each_gold(gold_text(gold))]
    tags = AnswerTags()
    with Grader(judge=judge, mode=mode, tolerance=tolerance) as grader:
        grades = grader.grade_many((gold, f"{tags.open}{gold}{tags.close}") for _, gold in golds)
    pairs = zip(golds, grades, strict=True)
    unfit = [
        id_ for (id_, _), g in pairs if g.status == "error" or not (is_function or g.reward == 1)
    ]
    return list(dict.fromkeys(unfit))
