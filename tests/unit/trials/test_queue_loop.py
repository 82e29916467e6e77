"""The loop in which works are tended: asked for more while a place is free, left when told."""

import pytest
from shell_task import shell_task

from sage_cli.progress import Silent
from sage_cli.trials.executors.local_executor import LocalExecutor
from sage_cli.trials.queue import TaskProgress, TaskQueue, run_tasks


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
