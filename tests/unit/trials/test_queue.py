"""Queues: order, repetition, failures and their classes; the loop, and the time left."""

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from sage_cli.config.load import changed, load
from sage_cli.errors import EXIT_BUSY, StoreError
from sage_cli.progress import RunningTask, Silent
from sage_cli.store.locks import writer
from sage_cli.store.run import Run
from sage_cli.trials.cost import Cost
from sage_cli.trials.executors.executor import Command, End, Fate, Resources
from sage_cli.trials.executors.local import LocalExecutor
from sage_cli.trials.failures import (
    LINES,
    Failure,
    Kind,
    all_failed,
    failure,
    last_lines,
    stored_failures,
    write_failures,
)
from sage_cli.trials.queue import TaskQueue, run_tasks
from sage_cli.trials.task import Task
from sage_cli.trials.task_progress import SURE_STEP, TaskProgress, work_of


@dataclass(eq=False, kw_only=True)
class ShellTask(Task):
    """`line` under `sh`, in the folder of its result."""

    line: str
    folder: Path

    def command(self, file, log):
        command = ("sh", "-c", f"cd '{self.folder}'; {self.line}")
        return Command(self.name, command, log, self.resources)


def shell_task(folder, name, line=None, needs=None):
    """A work that is done once `folder/name` is there, which its default line makes."""
    return ShellTask(
        name,
        f"work {name}",
        (),
        load().config,
        (folder / name).exists,
        Resources(),
        needs=needs,
        line=line or f"echo {name} >> order; echo made > {name}",
        folder=folder,
    )


PANEL = """loading libraries
╭─ error ──────────────────────╮
│ rl.micro_batch 7 doesn't     │
│ divide the 64 completions    │
╰──────────────────────────────╯
"""
TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory
"""


def failed(error, reason):
    return {"status": "failed", "error": error, "reason": reason}


@pytest.mark.parametrize(
    ("end", "manifest", "text", "kind", "reason"),
    [
        # what a run says of itself
        (
            End(Fate.EXITED, 2),
            failed("DivergedError", "loss is nan at step 7"),
            "step 1\nstep 2\n",
            Kind.DIVERGED,
            "loss is nan at step 7",
        ),
        (
            End(Fate.EXITED, 2),
            failed("OutOfMemoryError", "80 GiB don't hold it"),
            "",
            Kind.MEMORY,
            "80 GiB don't hold it",
        ),
        (
            End(Fate.EXITED, 2),
            failed("TrainingError", "the reference is another"),
            "",
            Kind.ERROR,
            "the reference is another",
        ),
        (
            End(Fate.EXITED, 2),
            {},
            PANEL,
            Kind.REFUSED,
            "rl.micro_batch 7 doesn't divide the 64 completions",
        ),
        # memory that a processor lacks is read from the traceback
        (End(Fate.EXITED, 1), failed("RuntimeError", "x"), TRACEBACK, Kind.MEMORY, None),
        (
            End(Fate.EXITED, 1),
            {},
            "Traceback (most recent call last):\nKeyError: 'tau'\n",
            Kind.ERROR,
            "KeyError: 'tau'",
        ),
        (End(Fate.EXITED, 3), {}, None, Kind.ERROR, "exit code 3"),
        # signals, time limits and lost nodes
        (End(Fate.KILLED, -9), {}, "", Kind.KILLED, "SIGKILL ended it from outside (so does the k"),
        (End(Fate.KILLED, 143), {}, "", Kind.KILLED, "SIGTERM ended it from outside"),  # 128 + 15
        (End(Fate.LOST), {}, "", Kind.KILLED, None),
        (
            End(Fate.TIMEOUT, -15),
            {"status": "interrupted", "error": None},
            "",
            Kind.TIMEOUT,
            "it took longer than executor.minutes allows",
        ),
    ],
)
def test_why_a_task_failed(tmp_path, end, manifest, text, kind, reason):
    log = tmp_path / "run.log"
    if text is not None:
        log.write_text(text)
    found = failure(end, manifest, log)
    assert found.kind is kind
    if reason is not None:
        assert found.reason.startswith(reason)
        assert found.reason == reason or reason.endswith("(so does the k")
    if kind is Kind.DIVERGED or text is None:
        assert found.lines == tuple((text or "").splitlines())


def test_failures_are_stored_with_their_last_lines_and_each_reason_once(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("".join(f"\x1b[31mline {i}\x1b[0m\n\n" for i in range(5000)))
    assert last_lines(log) == tuple(f"line {i}" for i in range(5000 - LINES, 5000))
    file = tmp_path / "failures.json"
    assert stored_failures(file) == {}
    write_failures(file, {"rl-a": Failure(Kind.MEMORY, "2 GiB", ("a line",))})
    assert stored_failures(file) == {"rl-a": "out of memory: 2 GiB"}
    file.write_text('{"rl-a": ')
    assert stored_failures(file) == {}
    error = all_failed(["timeout: late", "timeout: late", "killed: SIGKILL"], tmp_path)
    assert error.cause.splitlines() == ["every trial failed", "timeout: late", "killed: SIGKILL"]


class Ears:
    """Hears what becomes of tasks."""

    def __init__(self):
        self.ends, self.failures, self.waited_for = [], [], []

    def done(self, task):
        self.ends.append((task.name, "done" if task.since_s is not None else "found"))

    def failed(self, task, why, log, *, again):
        self.failures.append(why)
        self.ends.append((task.name, "again" if again else "lost"))

    def waits(self, task, who):
        self.ends.append((task.name, "waits"))
        self.waited_for.append(who)


@pytest.fixture
def ears():
    return Ears()


@pytest.fixture
def queue(tmp_path, ears):
    made = TaskQueue(LocalExecutor(2, grace_s=1), tmp_path / "logs", retries=1, listener=ears)
    yield made
    made.close()


def advance(queue, until, seconds=30):
    deadline = time.monotonic() + seconds
    while not until():
        queue.advance()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finish(queue):
    advance(queue, lambda: queue.idle)


def test_what_is_needed_is_done_before_and_once(queue, ears, tmp_path):
    base = shell_task(tmp_path, "base", "sleep 0.3; echo base >> order; touch base")
    queue.add(shell_task(tmp_path, "one", needs=base))
    again = shell_task(tmp_path, "base")  # the same task, asked for by another
    queue.add(shell_task(tmp_path, "two", needs=again))
    finish(queue)
    order = (tmp_path / "order").read_text().split()
    assert (order[0], sorted(order[1:])) == ("base", ["one", "two"])
    assert sorted(ears.ends) == [("base", "done"), ("one", "done"), ("two", "done")]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_has_all_cores_runs_by_itself_and_keeps_nothing_waiting(queue, tmp_path, place):
    """Each task says which others run when it begins and ends; two of them may run together."""
    line = "echo $(ls running) >> {name}; touch running/{name}; sleep 0.3; rm running/{name}"
    (tmp_path / "running").mkdir()
    names = ["one", "two"]
    names.insert(place, "alone")
    for name in names:
        task = shell_task(tmp_path, name, f"{line.format(name=name)}; echo $(ls running) >> {name}")
        task.alone = name == "alone"
        queue.add(task)
    finish(queue)
    beside = {name: set((tmp_path / name).read_text().split()) for name in names}
    assert beside["alone"] == set()
    assert "alone" not in beside["one"] | beside["two"]


def test_what_is_in_the_store_is_not_done_again(queue, ears, tmp_path):
    (tmp_path / "one").touch()
    queue.add(shell_task(tmp_path, "one"))
    assert queue.idle
    assert ears.ends == [("one", "found")]
    assert not (tmp_path / "order").exists()


def test_a_failure_is_tried_again_and_then_kept_with_its_reason(queue, ears, tmp_path):
    queue.add(shell_task(tmp_path, "once", "test -e seen && touch once; touch seen; exit 1"))
    queue.add(shell_task(tmp_path, "never", "echo no luck; exit 1"))
    finish(queue)
    assert ears.ends.count(("once", "again")) == 1
    assert ("once", "done") in ears.ends
    assert [end for name, end in ears.ends if name == "never"] == ["again", "lost"]
    assert (ears.failures[-1].kind, ears.failures[-1].reason) == (Kind.ERROR, "no luck")
    assert (tmp_path / "logs/never.log").read_text() == "no luck\nno luck\n"


@pytest.mark.parametrize(
    ("line", "end", "kind"),
    [("exit 2", "lost", Kind.REFUSED), ("touch odd; exit 7", "done", None)],  # a result counts
)
def test_a_refusal_is_not_repeated_and_a_result_counts(queue, ears, tmp_path, line, end, kind):
    queue.add(shell_task(tmp_path, "odd", line))
    finish(queue)
    assert ears.ends == [("odd", end)]
    assert [why.kind for why in ears.failures] == ([kind] if kind else [])


def test_what_needs_something_lost_is_lost_with_its_reason(queue, ears, tmp_path):
    base = shell_task(tmp_path, "base", "echo no base; exit 2")
    queue.add(shell_task(tmp_path, "one", needs=base))
    finish(queue)
    assert ears.ends == [("base", "lost"), ("one", "lost")]
    assert ears.failures[1] == ears.failures[0]


def test_a_work_whose_result_can_not_be_read_is_given_up_alone(queue, ears, tmp_path):
    def unreadable():
        raise StoreError("two texts for one sample")

    lost = shell_task(tmp_path, "lost", "touch began")
    lost.done = unreadable
    queue.add(shell_task(tmp_path, "after", "touch began", needs=lost))
    queue.add(lost)
    queue.add(shell_task(tmp_path, "other"))
    finish(queue)
    assert not (tmp_path / "began").exists()
    assert {(why.kind, why.reason) for why in ears.failures} == {
        (Kind.REFUSED, "two texts for one sample")
    }
    assert set(ears.ends) == {("lost", "lost"), ("after", "lost"), ("other", "done")}


def test_works_of_others_are_waited_for(queue, ears, tmp_path):
    run = Run(tmp_path / "run")
    task = shell_task(tmp_path, "one")
    task.run = run
    with writer(run.folder):
        queue.add(task)
        for _ in range(10):
            queue.advance()
            time.sleep(0.01)
        assert not queue.running
        assert queue.has_room  # there is room for what isn't elsewhere
        (tmp_path / "one").touch()
    finish(queue)
    assert ears.ends == [("one", "waits"), ("one", "found")]
    (who,) = ears.waited_for
    assert who.startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / "order").exists()


@pytest.mark.parametrize("dies", [False, True])
def test_one_that_lost_the_race_for_a_lock_waits_and_is_no_failure(queue, ears, tmp_path, dies):
    """Both looked while nobody held the run; the writer then ends its task, or dies over it."""
    task = shell_task(tmp_path, "base", f"test -e free || exit {EXIT_BUSY}; echo base > base")
    task.run = Run(tmp_path / "run")
    queue.add(task)
    queue.add(shell_task(tmp_path, "one", needs=task))
    queue.advance()
    with writer(task.run.folder):
        advance(queue, lambda: not queue.running)
        assert not queue.idle
        (tmp_path / ("free" if dies else "base")).touch()
    finish(queue)
    after = ("base", "done" if dies else "found")
    assert ears.ends == [("base", "waits"), after, ("one", "done")]
    assert not ears.failures


def test_a_disk_that_fails_for_now_is_tried_again_and_then_given_up(queue, ears, tmp_path):
    """It has the exit code of a run that is held elsewhere, but there is nobody to wait for."""
    for name, run in (("trained", Run(tmp_path / "run")), ("measured", None)):
        task = shell_task(tmp_path, name, f"exit {EXIT_BUSY}")
        task.run = run
        queue.add(task)
    finish(queue)
    for name in ("trained", "measured"):
        assert [end for of, end in ears.ends if of == name] == ["again", "lost"]


def test_no_more_than_there_are_places_and_no_less(queue, tmp_path):
    for name in "abcd":
        queue.add(shell_task(tmp_path, name, f"sleep 0.2; touch {name}"))
    queue.advance()
    assert [task.name for task in queue.running] == ["a", "b"]
    assert not queue.has_room
    finish(queue)
    assert all((tmp_path / name).exists() for name in "abcd")


def test_one_that_is_ended_leaves_its_place_and_nobody_is_told(queue, ears, tmp_path):
    queue.add(shell_task(tmp_path, "long", "sleep 60; touch long"))
    queue.advance()
    assert [one.name for one in queue.cancel(lambda task: task.name == "long")] == ["long"]
    queue.add(shell_task(tmp_path, "next"))
    finish(queue)
    assert ears.ends == [("next", "done")]


class Outliving(LocalExecutor):
    """Jobs that go on without their driver, as a cluster's do."""

    outlives = True
    known: ClassVar[dict[str, LocalExecutor]] = {}
    queued: ClassVar[set[str]] = set()

    def submit(self, tasks):
        jobs = super().submit(tasks)
        self.known.update(dict.fromkeys(jobs, self))
        return jobs

    def adopt(self, job):
        if job not in self.known:
            return False
        self._jobs |= {job: self.known[job]._jobs[job]}
        return True

    def waits(self, job):
        return job in self.queued

    def close(self):
        """Nothing ends."""


def test_jobs_that_outlive_a_driver_are_taken_up_by_the_next(tmp_path, ears):
    first = TaskQueue(Outliving(2), tmp_path / "logs", 1, ears)
    first.add(shell_task(tmp_path, "slow", "sleep 1; echo slow >> order; touch slow"))
    first.add(shell_task(tmp_path, "gone", "sleep 1; touch gone"))
    first.advance()
    kept = json.loads((tmp_path / "logs/jobs.json").read_text())
    assert sorted(kept.values()) == ["gone", "slow"]
    (job_gone,) = (job for job, name in kept.items() if name == "gone")
    del Outliving.known[job_gone]
    second = TaskQueue(Outliving(2), tmp_path / "logs", 1, ears)
    second.add(shell_task(tmp_path, "slow", "echo twice >> order; touch slow"))
    second.add(shell_task(tmp_path, "gone", "touch gone"))
    assert [task.name for task in second.running] == ["slow"]
    finish(second)
    assert (tmp_path / "order").read_text() == "slow\n"
    assert json.loads((tmp_path / "logs/jobs.json").read_text()) == {}


def left_jobs(folder):
    return list(json.loads((folder / "logs/jobs.json").read_text()).values())


def test_jobs_that_nobody_asks_for_leave_the_list_when_they_end(tmp_path, ears):
    first = TaskQueue(Outliving(3), tmp_path / "logs", 1, ears)
    for name, line in (("short", "true"), ("long", "sleep 60"), ("wanted", "echo no; exit 1")):
        first.add(shell_task(tmp_path, name, line))
    first.advance()
    assert sorted(left_jobs(tmp_path)) == ["long", "short", "wanted"]
    second = TaskQueue(Outliving(3), tmp_path / "logs", 0, ears)
    advance(second, lambda: left_jobs(tmp_path) == ["long"])
    # one that is asked for only now is told how it ended, and isn't run again
    second.add(shell_task(tmp_path, "wanted", "echo again >> order; exit 1"))
    second.advance()
    assert (ears.ends, ears.failures[0].reason) == ([("wanted", "lost")], "no")
    assert not (tmp_path / "order").exists()
    second.cancel(lambda _: True)
    for job in list(Outliving.known):
        Outliving.known[job].end(job)


@pytest.mark.parametrize("when", ["before", "while it is queued again"])
def test_a_job_whose_work_is_done_is_ended(tmp_path, ears, when, monkeypatch):
    monkeypatch.setattr("sage_cli.trials.queue.CHECK_QUEUED_S", 0.0)
    first = TaskQueue(Outliving(1), tmp_path / "logs", 1, ears)
    first.add(shell_task(tmp_path, "one", "sleep 600"))
    first.advance()
    (job,) = json.loads((tmp_path / "logs/jobs.json").read_text())
    if when == "before":  # by another command
        (tmp_path / "one").touch()
    second = TaskQueue(Outliving(1), tmp_path / "logs", 1, ears)
    second.add(shell_task(tmp_path, "one"))
    second.advance()
    if when != "before":
        assert second.running
        monkeypatch.setattr(Outliving, "queued", {job})
        (tmp_path / "one").touch()
        finish(second)
    second.close()
    assert ears.ends == [("one", "found" if when == "before" else "done")]
    assert Outliving.known[job]._jobs[job][0].poll() is not None  # nothing of it runs
    assert left_jobs(tmp_path) == []


def test_a_torn_list_of_jobs_is_named(tmp_path, ears):
    Path(tmp_path / "jobs.json").write_text('{"12": ')
    with pytest.raises(Exception, match=r"jobs\.json is corrupt or was edited"):
        TaskQueue(LocalExecutor(1), tmp_path, 1, ears)


@pytest.fixture
def single(tmp_path, ears, monkeypatch):
    """A queue of one place, which is looked at often."""
    monkeypatch.setattr("sage_cli.trials.queue.POLL_S", 0.02)
    made = TaskQueue(LocalExecutor(1, grace_s=1), tmp_path / "logs", retries=0, listener=ears)
    yield made
    made.close()


def test_more_is_asked_for_where_a_place_is_free_and_not_before(single, ears, tmp_path):
    names = ["two", "three"]
    under_way = []

    def further():
        under_way.append(len(single.running))
        if names:
            single.add(shell_task(tmp_path, names.pop(0)))
            return True
        return False

    single.add(shell_task(tmp_path, "one"))
    looks = []
    single.run(TaskProgress(Silent()), further=further, check=lambda: looks.append(1))
    assert ears.ends == [("one", "done"), ("two", "done"), ("three", "done")]
    assert under_way == [0, 0, 0]  # for two, for three, and for none
    assert looks


def test_enough_leaves_works_under_way(single, ears, tmp_path):
    single.add(shell_task(tmp_path, "one", "sleep 60"))
    single.run(TaskProgress(Silent()), enough=lambda: True)
    assert len(single.running) == 1
    assert ears.ends == []


def test_why_works_were_given_up(tmp_path):
    tasks = [shell_task(tmp_path, "good"), shell_task(tmp_path, "bad", "echo no luck; exit 1")]
    failures = run_tasks(tasks, LocalExecutor(2), tmp_path / "logs", 0, Silent())
    assert {name: why.reason for name, why in failures.items()} == {"bad": "no luck"}
    assert (tmp_path / "good").exists()


class Board(Silent):
    """Keeps what the board was told last."""

    def board(self, status):
        self.status = status


SFT, EVAL = ("sft", 100, 100), ("eval", 0, 20)


@pytest.mark.parametrize(("trials", "places", "total"), [
    ([("rl", 40, 100)] * 6, 1, 6),  # kind, steps, seconds
    ([("rl", 40, 100)] * 6, 2, 6),
    ([("rl", 0, 100)] * 6, 2, 0),  # whose steps nobody sees
    ([("rl", 40, 80), ("rl", 40, 120)] * 3, 2, 0),
    ([("rl", 40, 100)] * 4, 4, 0),
    ([SFT, ("rl", 40, 80), ("rl", 40, 100), EVAL], 2, 0),  # the demo
    ([SFT, ("rl", 400, 3000), ("rl", 400, 3600), EVAL, EVAL], 2, 0),
    ([("rl", 4, 400)] * 5, 1, 0),
    ([("rl", 10_000, 86_400)], 1, 0),
])  # fmt: skip
def test_the_time_left_is_right_within_a_factor_of_two(
    trials, places, total, tmp_path, monkeypatch
):
    """A clock of its own: tasks begin where a place is free, SFT alone and first, 5 s to load."""
    now = [0.0]
    monkeypatch.setattr("sage_cli.trials.task_progress.cost_of", lambda _: Cost())
    monkeypatch.setattr("sage_cli.trials.task_progress.time.monotonic", lambda: now[0])
    sink = Board()
    board = TaskProgress(sink, total)
    tasks = [shell_task(tmp_path, f"t{place}") for place in range(len(trials))]
    begins, free = [], [0.0] * places
    for task, (kind, _, seconds) in zip(tasks, trials, strict=True):
        task.kind = kind
        board.expect(task)
        begins.append(min(free))
        free[free.index(min(free))] = begins[-1] + seconds
        if kind == "sft":
            free = [float(seconds)] * places
    ends = [begin + seconds for begin, (*_, seconds) in zip(begins, trials, strict=True)]

    def running(task):
        place = tasks.index(task)
        _, steps, seconds = trials[place]
        age = now[0] - begins[place]
        step = int(steps * max(0.0, age - 5) / (seconds - 5))
        return RunningTask(task.name, step or None, steps or None, age)

    monkeypatch.setattr("sage_cli.trials.task_progress._running", running)
    told, sure = 0, False
    # a step counts once it is over
    slack = 5 + max((s / n for _, n, s in trials if n >= SURE_STEP), default=0.0)
    stride = max(1, int(max(ends)) // 4000)  # seconds from look to look
    for second in range(stride, int(max(ends)), stride):
        now[0] = float(second)
        for place, end in enumerate(ends):
            if second - stride < end <= second:
                tasks[place].since_s = begins[place]
                board.done(tasks[place])
        shown = [t for t, b, e in zip(tasks, begins, ends, strict=True) if b < second < e]
        board.show(shown, places)
        left_s, truth = sink.status.left_s, max(ends) - second
        # from the second trial, or from the tenth step of what teaches something of all
        trained = [t for t in tasks if t.kind == "rl" and t.name in board._settled]
        paced = bool(shown) and all((running(t).step or 0) > 13 for t in shown if t.kind == "rl")
        sure = sure or bool(trained) or (paced and any(t.kind == "rl" for t in shown))
        if left_s is not None:
            told += 1
            assert left_s >= 0
            assert truth / 2 - 5 <= left_s <= truth * 2 + slack, (second, left_s, truth)
        elif any(t.kind == "rl" for t in shown):
            assert not sure, second
    assert told > 0


def test_a_measurement_takes_time_by_its_completions(tmp_path, monkeypatch):
    """60 completions took 38 s: 570 take 361 s, and 90 of a policy's checkpoints 57 s."""
    now, sink = [38.0], Board()
    monkeypatch.setattr("sage_cli.trials.task_progress.time.monotonic", lambda: now[0])
    sizes = {"small": 60, "large": 570, "steps": 90}
    cost_of = lambda task: Cost(completions=sizes[task.name])  # noqa: E731
    monkeypatch.setattr("sage_cli.trials.task_progress.cost_of", cost_of)
    board = TaskProgress(sink)
    tasks = [shell_task(tmp_path, name) for name in sizes]
    for task, kind in zip(tasks, ("eval", "eval", "checkpoints"), strict=True):
        task.kind = kind
        board.expect(task)
    tasks[0].since_s = 0.0
    board.done(tasks[0])
    board.show([], 1)
    assert sink.status.left_s == pytest.approx(38 / 60 * (570 + 90))


def test_a_task_is_as_large_as_its_completions_and_others_are_unknown(tmp_path):
    config = changed(
        load(["tiny"]).config,
        {"evaluation.benchmark": "arithmetic:held_out=20", "evaluation.samples": 4},
    )
    task = replace(shell_task(tmp_path, "measured"), kind="eval", config=config, measures=True)
    assert work_of(task) == ("eval", 20 * 4)
    sink = Board()
    board = TaskProgress(sink)
    first, later = shell_task(tmp_path, "sft"), shell_task(tmp_path, "rl")
    first.kind, later.kind = "sft", "rl"
    for task in (first, later):
        board.expect(task)
    first.since_s = 0.0
    board.done(first)
    board.show([], 1)
    assert sink.status.left_s is None
