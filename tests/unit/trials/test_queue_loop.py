"""The loop in which works are tended: asked for more while a place is free, left when told."""

from dataclasses import replace

import pytest
from shell_task import shell_task

from sage_cli.config.load import changed, load
from sage_cli.progress import RunningTask, Silent
from sage_cli.trials.cost import Cost
from sage_cli.trials.executors.local_executor import LocalExecutor
from sage_cli.trials.queue import SURE_STEP, TaskProgress, TaskQueue, run_tasks, work_of


class Ears:
    """Hears what becomes of works."""

    def __init__(self):
        self.done_names, self.lost = [], []

    def done(self, work):
        self.done_names.append(work.name)

    def failed(self, work, why, log, *, again):
        self.lost.append(work.name)


@pytest.fixture
def ears():
    return Ears()


@pytest.fixture
def queue(tmp_path, ears):
    made = TaskQueue(LocalExecutor(1, grace_s=1), tmp_path / "logs", retries=0, listener=ears)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr("sage_cli.trials.queue.POLL_S", 0.02)


def test_more_is_asked_for_where_a_place_is_free_and_not_before(queue, ears, tmp_path):
    names = ["two", "three"]
    under_way = []

    def further():
        under_way.append(len(queue.running))
        if names:
            queue.add(shell_task(tmp_path, names.pop(0)))
            return True
        return False

    queue.add(shell_task(tmp_path, "one"))
    looks = []
    queue.run(TaskProgress(Silent()), further=further, check=lambda: looks.append(1))
    assert ears.done_names == ["one", "two", "three"]
    assert under_way == [0, 0, 0]  # for two, for three, and for none
    assert looks


def test_enough_leaves_works_under_way(queue, ears, tmp_path):
    queue.add(shell_task(tmp_path, "one", "sleep 60"))
    queue.run(TaskProgress(Silent()), enough=lambda: True)
    assert len(queue.running) == 1
    assert ears.done_names == []


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


@pytest.mark.parametrize(
    ("trials", "places", "total"),
    [
        ([("rl", 40, 100)] * 6, 1, 6),  # kind, steps, seconds
        ([("rl", 40, 100)] * 6, 2, 6),
        ([("rl", 0, 100)] * 6, 2, 0),  # whose steps nobody sees
        ([("rl", 40, 80), ("rl", 40, 120)] * 3, 2, 0),
        ([("rl", 40, 100)] * 4, 4, 0),
        ([SFT, ("rl", 40, 80), ("rl", 40, 100), EVAL], 2, 0),  # the demo
        ([SFT, ("rl", 400, 3000), ("rl", 400, 3600), EVAL, EVAL], 2, 0),
        ([("rl", 4, 400)] * 5, 1, 0),
        ([("rl", 10_000, 86_400)], 1, 0),
    ],
)
def test_the_time_left_is_right_within_a_factor_of_two(
    trials, places, total, tmp_path, monkeypatch
):
    """A clock of its own: tasks begin where a place is free, SFT alone and first, 5 s to load."""
    now = [0.0]
    monkeypatch.setattr("sage_cli.trials.queue.cost_of", lambda _: Cost())
    monkeypatch.setattr("sage_cli.trials.queue.time.monotonic", lambda: now[0])
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

    monkeypatch.setattr("sage_cli.trials.queue._running", running)
    told, sure = 0, False
    # a step counts once it is over
    slack = 5 + max((s / n for _, n, s in trials if n >= SURE_STEP), default=0.0)
    for second in range(1, int(max(ends))):
        now[0] = float(second)
        for place, end in enumerate(ends):
            if second - 1 < end <= second:
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
    monkeypatch.setattr("sage_cli.trials.queue.time.monotonic", lambda: now[0])
    sizes = {"small": 60, "large": 570, "steps": 90}
    cost_of = lambda task: Cost(completions=sizes[task.name])  # noqa: E731
    monkeypatch.setattr("sage_cli.trials.queue.cost_of", cost_of)
    board = TaskProgress(sink)
    tasks = [shell_task(tmp_path, name) for name in sizes]
    for task, kind in zip(tasks, ("eval", "eval", "checkpoints"), strict=True):
        task.kind = kind
        board.expect(task)
    tasks[0].since_s = 0.0
    board.done(tasks[0])
    board.show([], 1)
    assert sink.status.left_s == pytest.approx(38 / 60 * (570 + 90))


def test_a_task_is_as_large_as_its_completions(tmp_path):
    config = changed(
        load(["tiny"]).config,
        {"evaluation.benchmark": "arithmetic:held_out=20", "evaluation.samples": 4},
    )
    task = replace(shell_task(tmp_path, "measured"), kind="eval", config=config, measures=True)
    assert work_of(task) == ("eval", 20 * 4)


def test_the_time_left_is_unknown_while_nothing_is_known_of_trainings(tmp_path):
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
