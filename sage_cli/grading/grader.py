"""Completions to grades: extraction, a bounded memory, quick judgement, workers for the rest."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache, partial
from types import TracebackType

from sage_cli.config.judging import Extraction
from sage_cli.grading.extract import AnswerTags, extract
from sage_cli.grading.identity import GraderIdentity, grading_version
from sage_cli.grading.judges.registry import find_judge, package_of
from sage_cli.grading.mathematics.normalise import MAX_LENGTH, gold_text
from sage_cli.grading.status import STATUSES, Grade, Status
from sage_cli.grading.workers.pool import WorkerPool
from sage_cli.grading.workers.process import WorkerProcess

_REMEMBERED = 65_536
_MAX_TEXT = 100_000
"""Characters of a whole completion that are searched for an answer."""
_GRACE_S = 1.0
"""What a worker has beyond its own whole-second alarms before it is killed."""

Pair = tuple[str, str]
log = logging.getLogger(__name__)


class Grader:
    """Grades completions against golds; a context manager, because it keeps worker processes.

    `judge` says what kind of answer it is, `mode` how strictly mathematics is judged (`strict` or
    `math-verify`), `tolerance` is relative and None where answers must be exact. `extract` says
    where the answer stands (see `extract.py`); `boxed` is short for `extract="boxed"`. A pair has
    `timeout_s` whole seconds, and a worker may grow by `memory_mb`. Workers start with the first
    pair that needs one. `identity` is all of that but the number of workers: what grades may be
    stored by.

    Only mathematics is searched for in a whole text: under `text` other judges take the tags.
    Raises ConfigurationError for a judge or mode that doesn't exist, and for `text` under `strict`.
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
    ) -> None:
        place: Extraction = extract or ("boxed" if boxed else "tags")
        if place == "text" and judge != "math":
            place = "tags"
        self._judge = find_judge(judge, mode, place)
        self.identity = GraderIdentity(
            mode=mode,
            judge=judge,
            tolerance=tolerance,
            answer_open=answer_open,
            answer_close=answer_close,
            extract=place,
            timeout_s=timeout_s,
            memory_mb=memory_mb,
            version=grading_version(package_of(judge)),
        )
        self.pool = WorkerPool(workers, partial(WorkerProcess, memory_mb, judge, mode, place))
        self._tags, self._place = AnswerTags(answer_open, answer_close), place
        self._longest = _MAX_TEXT if place == "text" else MAX_LENGTH
        self._known: OrderedDict[Pair, Status] = OrderedDict()
        self._lock = threading.Lock()
        self._judge_failed = False

    def __enter__(self) -> Grader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def grade_many(self, pairs: Iterable[tuple[object, object]]) -> list[Grade]:
        """A grade for each (gold, completion), in order, whatever they are; never raises on them.

        Equal (gold, answer) pairs are judged once.
        """
        read = [(gold_text(gold), self._extracted(completion)) for gold, completion in pairs]
        statuses: dict[Pair, Status | None] = {}
        for gold, answer in read:
            if answer is not None and (gold, answer) not in statuses:
                statuses[gold, answer] = self._quick(gold, answer)
        undecided = [pair for pair, status in statuses.items() if status is None]
        if undecided:
            for pair, status in zip(undecided, self._full(undecided), strict=True):
                statuses[pair] = status
                if status != "error":
                    self._remember(pair, status)
        return [
            Grade("unparseable" if gold else "error", None)
            if answer is None
            else Grade(statuses[gold, answer] or "error", self._shown(answer))
            for gold, answer in read
        ]

    def grade(self, gold: object, completion: object) -> Grade:
        """The grade of one completion."""
        return self.grade_many([(gold, completion)])[0]

    def _extracted(self, completion: object) -> str | None:
        if not isinstance(completion, str):
            return None
        return extract(completion, self._tags, self._place)

    def _shown(self, answer: str) -> str | None:
        """What a grade keeps: a text that was searched is no answer."""
        return None if self._place == "text" else answer

    def _quick(self, gold: str, answer: str) -> Status | None:
        if not gold or len(gold) > MAX_LENGTH:
            return "error"
        answer = answer.strip()
        if not answer or len(answer) > self._longest:
            return "unparseable"
        with self._lock:
            known = self._known.get((gold, answer))
        if known is not None:
            return known
        try:
            status = self._judge.quick(gold, answer, self.identity.tolerance)
        except Exception as error:  # is a status, counted, and doesn't end a training
            self._name_failing_judge(f"{type(error).__name__}: {error}")
            return "error"
        if status is None:
            return None
        if status not in STATUSES:
            self._name_failing_judge(f"{str(status)[:200]!r} is no status")
            return "error"
        self._remember((gold, answer), status)
        return status

    def _full(self, pairs: list[Pair]) -> list[Status]:
        identity = self.identity
        tasks = [
            {
                "gold": gold,
                "answer": answer.strip(),
                "tolerance": identity.tolerance,
                "timeout_s": identity.timeout_s,
            }
            for gold, answer in pairs
        ]
        statuses = self.pool.run(tasks, identity.timeout_s + _GRACE_S)
        if self.pool.failure is not None:
            self._name_failing_judge(self.pool.failure)
        return statuses

    def _name_failing_judge(self, why: str) -> None:
        """Say so once: a judge that always fails looks like a policy that is always wrong."""
        if not self._judge_failed:
            self._judge_failed = True
            who = f"judge '{self.identity.judge}' ({type(self._judge).__module__})"
            log.warning("%s fails, and such answers count as errors; the first: %s", who, why)

    def _remember(self, pair: Pair, status: Status) -> None:
        if len(pair[1]) > MAX_LENGTH:
            return
        with self._lock:
            self._known[pair] = status
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def grade(gold: object, completion: object) -> Grade:
    """The grade of a completion: strict mathematics between <SOLUTION> tags.

    What exact comparison can't decide goes to a worker process that is started once and shared.
    For other tags, judges, modes or many completions use a `Grader`.
    """
    return _shared().grade(gold, completion)


@lru_cache(maxsize=1)
def _shared() -> Grader:
    return Grader(workers=1)
