"""Completions to grades: extraction, a bounded memory, quick judgement, workers for the rest.

Workers are processes that judge untrusted answers: each answers within a deadline or is replaced.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from sage_cli.grading.grades import (
    GRADING_VERSION,
    AnswerTags,
    Grade,
    GraderIdentity,
    Judged,
    Status,
    extract,
)
from sage_cli.grading.judges import find_judge, label_of
from sage_cli.grading.mathematics.notation import MAX_LENGTH, gold_text
from sage_cli.settings.judge_names import Extraction, Unfinished
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.solution_text import CLOSE, each_gold, is_open

_REMEMBERED = 65_536
_MAX_TEXT = 100_000
"""Characters of a whole completion that are searched for an answer, and of what a function of one's
own is given: a program, or tests."""
_GRACE_S = 1.0
"""Time of a worker beyond its own whole-second alarms before it is killed."""
log = logging.getLogger(__name__)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_WORKER = "sage_cli.grading.worker"
_START_S = 120.0
_STARTS = 3
"""Workers that may die before they are ready until the rest of a call is given up."""
_PATIENCE = 4
"""Answers to one gold that may time out in a row until the others aren't tried any more."""


class Case(NamedTuple):
    """What is judged: `question` is "" unless the judge reads it."""

    gold: str
    answer: str
    question: str = ""


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
        self._known: OrderedDict[Case, Judged] = OrderedDict()
        self._lock = threading.Lock()
        self._judge_failed = False

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def grade_many(
        self,
        pairs: Iterable[tuple[object, object]],
        questions: Iterable[str | None] | None = None,
    ) -> list[Grade]:
        """Return a grade for each (gold, completion), in order; never raises, whatever they are.

        Of several golds, of which any is correct, the best grade counts. `questions` has one for
        each pair, None where it is unknown: an amount that the question says in another unit than
        the gold's is not an answer to it.
        """
        pairs = list(pairs)
        asked = [None] * len(pairs) if questions is None else list(questions)
        rows = [
            (each_gold(gold_text(gold)), completion, question or "")
            for (gold, completion), question in zip(pairs, asked, strict=True)
        ]
        # A completion with several golds becomes several rows, so that equal cases are judged once
        # whichever row they come from; the iterator below takes them apart again in the same order.
        each = [(gold, text, question) for golds, text, question in rows for gold in golds]
        grades = iter(self._graded(each))
        best = (
            next(grades)
            if len(golds) == 1
            # `max` keeps the first of equal grades, so the result does not depend on how the judge
            # orders the alternatives behind it.
            else max((next(grades) for _ in golds), key=attrgetter("reward"))
            for golds, *_ in rows
        )
        return [
            replace(grade, reason=self._reason(*pair, grade))
            if grade.status in ("unparseable", "timeout", "error")
            else grade
            for pair, grade in zip(pairs, best, strict=True)
        ]

    def _graded(self, rows: Sequence[tuple[str, object, str]]) -> list[Grade]:
        """Return a grade for each (gold, completion, question); equal cases are judged once."""
        cases = [self._case(*row) for row in rows]
        judged: dict[Case, Judged | None] = {}
        for case in cases:
            # Samples of one problem repeat their answers often. `_known` holds only what is
            # decided, so an undecided case would go to a worker once for every sample that has it.
            if case is not None and case not in judged:
                judged[case] = self._quick(case)
        undecided = [case for case, status in judged.items() if status is None]
        for case, status in zip(undecided, self._full(undecided), strict=True):
            judged[case] = status
            # An error may come from the machine (no memory, a worker that was killed), and another
            # try may succeed. A timeout is remembered: it would cost its seconds again.
            if status != "error":
                self._remember(case, status)
        searched = self._place == "text"  # a whole text that was searched is not an answer
        grades = {
            case: Grade.from_judged(
                "error" if status is None else status, None if searched else case.answer
            )
            for case, status in judged.items()
        }
        return [
            Grade(
                ("wrong" if self._is_cut(completion) else "unparseable") if gold else "error", None
            )
            if case is None
            else grades[case]
            for case, (gold, completion, _) in zip(cases, rows, strict=True)
        ]

    def _case(self, gold: str, completion: object, question: str) -> Case | None:
        """Return what is judged; None where the completion has no answer."""
        answer = self._extracted(completion)
        if answer is None:
            return None
        # The question belongs to the key of the memory, so a judge that doesn't read it for this
        # gold must get "": else equal answers to different questions were judged once for each.
        reads = question and gold and len(gold) <= self._longest_gold
        return Case(gold, answer, question if reads and self._judge.reads_question(gold) else "")

    def grade(self, gold: object, completion: object, question: str | None = None) -> Grade:
        """Return the grade of one completion."""
        return self.grade_many([(gold, completion)], [question])[0]

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
        """Return why the answer is neither correct nor wrong."""
        if grade.status == "timeout":
            return f"the comparison took more than {self.identity.timeout_s} s"
        if grade.status == "error":
            if not gold_text(gold) and isinstance(gold, str):
                return "the gold is blank"
            if not gold_text(gold):
                return f"the gold is not a text or finite number: {str(gold)[:100]}"
            if len(gold_text(gold)) > self._longest_gold:
                return f"the gold has more than {self._longest_gold:,} characters"
            return f"judge '{self.identity.judge}' can't read the gold, or failed"
        if not isinstance(completion, str):
            return "the completion is not a text"
        if grade.extracted is None and self._place != "text":
            box, tags = r"\boxed{}", f"{self._tags.open} ... {self._tags.close}"
            return f"nothing is closed in {box if self._place == 'boxed' else tags}"
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

    def _quick(self, case: Case) -> Judged | None:
        gold, answer, question = case
        if not gold or len(gold) > self._longest_gold:
            return "error"
        answer = answer.strip()
        if not answer or len(answer) > self._longest:
            return "unparseable"
        with self._lock:
            # Only the dictionary is guarded. Two threads that judge the same case at once do the
            # work twice, which is cheaper than waiting for each other's judge.
            remembered = self._known.get(Case(gold, answer, question))
        if remembered is not None:
            return remembered
        try:
            judged = self._judge.quick(gold, answer, self.identity.tolerance, question)
        except Exception as error:  # is a status, counted, and doesn't end a training
            self._report_failing_judge(f"{type(error).__name__}: {error}")
            return "error"
        if judged is not None:
            self._remember(case, judged)
        return judged

    def _full(self, cases: list[Case]) -> list[Judged]:
        if not cases:
            return []
        timeout_s, tolerance = self.identity.timeout_s, self.identity.tolerance
        tasks = [
            {
                "gold": gold,
                "answer": answer.strip(),
                "tolerance": tolerance,
                "timeout_s": timeout_s,
                "question": question,
            }
            for gold, answer, question in cases
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

    def _remember(self, case: Case, judged: Judged) -> None:
        # Whole completions, as under `text`, would fill the memory with texts that never come
        # twice.
        if len(case.answer) > MAX_LENGTH:
            return
        with self._lock:
            self._known[case._replace(answer=case.answer.strip())] = judged
            if len(self._known) > _REMEMBERED:
                # The oldest goes, not the least recently used one: a lookup then changes nothing,
                # and the samples of a step come together anyway.
                self._known.popitem(last=False)


def grade(gold: object, completion: object, question: str | None = None) -> Grade:
    """Return the grade of a completion: strict mathematics between <SOLUTION> tags.

    Pairs that exact comparison can't decide go to a worker process that is started once and
    shared. For other tags, judges, modes or many completions use a `Grader`.
    """
    return _shared().grade(gold, completion, question)


@lru_cache(maxsize=1)
def _shared() -> Grader:
    return Grader(workers=1)


def check_golds(
    golds: Iterable[tuple[str, object]], *, judge: str = "math", tolerance: float | None = None
) -> list[str]:
    """Return the ids of the (id, gold) pairs whose gold, as an answer, is not graded `right`.

    To a function of one's own a gold needn't be an answer (it may be tests that a program has to
    pass), so of one the ids are those where it fails.
    """
    is_function = names_code(judge)
    golds = [(id_, single) for id_, gold in golds for single in each_gold(gold_text(gold))]
    tags = AnswerTags()
    with Grader(judge=judge, tolerance=tolerance) as grader:
        grades = grader.grade_many((gold, f"{tags.open}{gold}{tags.close}") for _, gold in golds)
    pairs = zip(golds, grades, strict=True)
    unfit = [
        id_ for (id_, _), g in pairs if g.status == "error" or not (is_function or g.reward == 1)
    ]
    return list(dict.fromkeys(unfit))


class WorkerProcess:
    """A fresh interpreter: nothing is forked, and the caller's main module is not imported again.

    That makes it work from threads, beside CUDA, in daemonic processes and under launchers.
    It knows one judge, by name, mode and extraction. `deadline` is when it must have answered,
    infinity while it has nothing to do.
    """

    def __init__(self, memory_mb: int, judge: str, mode: str, extract: str = "tags") -> None:
        folders = [folder for folder in sys.path if folder]  # "" is the caller's own folder
        path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            # `-P` leaves the current folder out of the module path: a file `json.py` beside a
            # user's data would be imported instead of the library's.
            [sys.executable, "-P", "-m", _WORKER, str(memory_mb), judge, mode, extract, *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is the parent's business
            # Many workers share the cores, and numerical libraries would start a thread for each
            # core in every one of them.
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        self._received = b""
        self.ready = False
        self.task: int | None = None
        self.deadline = time.monotonic() + _START_S

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of the replies, for selectors."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, number: int, task: dict[str, Any], seconds: float) -> None:
        """Hand over a task; what it takes fits into the pipe, so that this doesn't wait.

        A worker that is gone shows as the end of its replies.
        """
        assert self._process.stdin is not None
        self.task, self.deadline = number, time.monotonic() + seconds
        try:
            # A pipe holds 64 KiB on Linux. A longer line blocks until the worker has read the rest
            # of it, which one that is ready does at once.
            self._process.stdin.write(json.dumps(task).encode("ascii") + b"\n")
        # The worker is dead, but its end may not be visible in the selector yet: a deadline in the
        # past makes the next round replace it.
        except BrokenPipeError:
            self.deadline = time.monotonic()

    def receive(self) -> dict[str, Any] | None:
        """Return the next reply, {} when it isn't whole yet, None when the process has ended."""
        chunk = os.read(self.fileno(), 65536)
        if not chunk:
            return None
        self._received += chunk
        # A reply may arrive in pieces, and a read may hold the end of one and the start of the
        # next.
        line, end, rest = self._received.partition(b"\n")
        if not end:
            return {}
        self._received = rest
        reply: dict[str, Any] = json.loads(line)
        return reply

    def idle(self) -> None:
        """Note that nothing is under way."""
        self.ready, self.task, self.deadline = True, None, float("inf")

    def kill(self) -> None:
        """End it at once and collect it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class WorkerPool:
    """At most `workers` processes, started when there is something to do, kept between calls.

    `start` makes one. With `impatient`, a gold is given up whose answers all time out: what is left
    is `timeout` at once. `failure` says why the last call's first answer has no status, where the
    judge is a function of one's own and failed.
    """

    def __init__(
        self, workers: int, start: Callable[[], WorkerProcess], *, impatient: bool = False
    ) -> None:
        self.workers = workers
        self._start = start
        self._timeouts: Counter[str] | None = Counter() if impatient else None
        self.failure: str | None = None
        self._lock = threading.Lock()
        self._pool: list[WorkerProcess] = []
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _kill_all, self._pool, self._owner)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._pool]

    def run(self, tasks: Sequence[dict[str, Any]], timeout_s: float) -> list[Judged]:
        """Return a status or share for each task, in order; a task that takes longer is `timeout`.

        Calls from several threads take turns.
        """
        with self._lock:
            if os.getpid() != self._owner:  # forked: these workers are the parent's
                self._pool, self._owner = [], os.getpid()
                self._finalizer = weakref.finalize(self, _kill_all, self._pool, self._owner)
            run = _Run(self._pool, tasks, timeout_s, self._start, self._timeouts)
            judged = run.finish(min(self.workers, len(tasks)))
            self.failure = run.failure
            return judged

    def close(self) -> None:
        """End all workers; the pool starts new ones when it is used again."""
        with self._lock:
            _kill_all(self._pool, self._owner)


class _Run:
    """One call: which tasks wait, which worker has which, what came back."""

    def __init__(
        self,
        pool: list[WorkerProcess],
        tasks: Sequence[dict[str, Any]],
        timeout_s: float,
        start: Callable[[], WorkerProcess],
        timeouts: Counter[str] | None,
    ) -> None:
        self.pool, self.tasks, self.timeout_s, self.start = pool, tasks, timeout_s, start
        self.timeouts = timeouts
        self.waiting = deque(range(len(tasks)))
        self.judged: list[Judged | None] = [None] * len(tasks)
        self.failed_starts = 0
        self.failure: str | None = None
        self.selector = selectors.DefaultSelector()

    def finish(self, workers: int) -> list[Judged]:
        for worker in self.pool:
            self.selector.register(worker, selectors.EVENT_READ)
        try:
            while None in self.judged:
                # Each loop refills the pool, because a worker is killed at its deadline or goes
                # when it has grown: one bad answer must not leave the rest with fewer workers.
                while len(self.pool) < workers and self.failed_starts < _STARTS:
                    self._start()
                if not self.pool:
                    break
                self._hand_out()
                if None in self.judged:  # else every task that was left is given up
                    self._wait()
        finally:
            self.selector.close()
            # Reached with tasks under way only by an exception, such as Ctrl-C. A late reply of
            # such a worker would be taken for the answer to a task of the next call.
            for worker in [worker for worker in self.pool if worker.task is not None]:
                self.pool.remove(worker)
                worker.kill()
        return ["error" if status is None else status for status in self.judged]

    def _start(self) -> None:
        try:
            worker = self.start()
        except OSError:  # no memory, no processes left
            self.failed_starts += 1
            return
        self.pool.append(worker)
        self.selector.register(worker, selectors.EVENT_READ)

    def _hand_out(self) -> None:
        for worker in self.pool:
            while self.waiting and worker.ready and worker.task is None:
                number = self.waiting.popleft()
                # A gold that the judge cannot decide in time, such as a huge power, would cost the
                # full timeout for each of hundreds of samples.
                if self.timeouts and self.timeouts[self.tasks[number]["gold"]] >= _PATIENCE:
                    self.judged[number] = "timeout"
                else:
                    worker.send(number, self.tasks[number], self.timeout_s)

    def _judge(self, number: int, judged: Judged) -> None:
        """Note a task's status, and how many timeouts its gold has had since the last answer."""
        self.judged[number] = judged
        if self.timeouts is not None:
            gold = self.tasks[number]["gold"]
            # In a row, not in total: a gold with some hard answers among ordinary ones is still
            # judged.
            self.timeouts[gold] = self.timeouts[gold] + 1 if judged == "timeout" else 0

    def _wait(self) -> None:
        next_deadline = min(worker.deadline for worker in self.pool)
        # At most a minute at a time: an idle worker's deadline is infinite, which `select` refuses
        # as a timeout.
        for key, _ in self.selector.select(max(0.0, min(next_deadline - time.monotonic(), 60.0))):
            worker = key.fileobj
            assert isinstance(worker, WorkerProcess)
            reply = worker.receive()
            if reply is None:
                self._replace(worker, "error")
            elif reply:
                self._note(worker, reply)
        now = time.monotonic()
        # After the replies, so that an answer that arrived at the last moment counts.
        for worker in [worker for worker in self.pool if worker.deadline <= now]:
            self._replace(worker, "timeout")

    def _note(self, worker: WorkerProcess, reply: dict[str, Any]) -> None:
        if worker.task is not None:
            self._judge(worker.task, reply["judged"])
            self.failure = self.failure or reply.get("failure")
        worker.idle()
        self.failed_starts = 0
        if reply.get("spent"):
            self._remove(worker)

    def _replace(self, worker: WorkerProcess, status: Status) -> None:
        if worker.task is not None:
            self._judge(worker.task, status)
        # It died while it started, so the reason is likely the machine's and the next one would
        # die, too. A worker that dies over a task says nothing about the others.
        elif not worker.ready:
            self.failed_starts += 1
        self._remove(worker)

    def _remove(self, worker: WorkerProcess) -> None:
        self.selector.unregister(worker)
        self.pool.remove(worker)
        worker.kill()
        if None not in self.judged and not self.failed_starts:
            self._start()  # to be ready by the next call


def _kill_all(pool: list[WorkerProcess], owner: int) -> None:
    # A forked child inherits this list and the finalizer, and must not kill the parent's workers
    # when it exits.
    if os.getpid() == owner:
        for worker in pool:
            worker.kill()
    pool.clear()
