"""The loop in which works are tended: asked for more while a place is free, left when told."""

import pytest
from shell_work import shell_work

from sage_cli.executors.local import LocalExecutor
from sage_cli.executors.run_works import run_until_idle, run_works
from sage_cli.executors.work_progress import WorkProgress
from sage_cli.executors.work_queue import WorkQueue
from sage_cli.progress import Silent


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
    made = WorkQueue(LocalExecutor(1, grace_s=1), tmp_path / "logs", retries=0, listener=ears)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr("sage_cli.executors.run_works.POLL_S", 0.02)


def test_more_is_asked_for_where_a_place_is_free_and_not_before(queue, ears, tmp_path):
    names = ["two", "three"]
    under_way = []

    def further():
        under_way.append(len(queue.running))
        if names:
            queue.add(shell_work(tmp_path, names.pop(0)))
            return True
        return False

    queue.add(shell_work(tmp_path, "one"))
    looks = []
    run_until_idle(queue, WorkProgress(Silent()), further=further, look=lambda: looks.append(1))
    assert ears.done_names == ["one", "two", "three"]
    assert under_way == [0, 0, 0]  # for two, for three, and for none
    assert looks


def test_enough_leaves_works_under_way(queue, ears, tmp_path):
    queue.add(shell_work(tmp_path, "one", "sleep 60"))
    run_until_idle(queue, WorkProgress(Silent()), enough=lambda: True)
    assert len(queue.running) == 1
    assert ears.done_names == []


def test_why_works_were_given_up(tmp_path):
    works = [shell_work(tmp_path, "good"), shell_work(tmp_path, "bad", "echo no luck; exit 1")]
    failures = run_works(works, LocalExecutor(2), tmp_path / "logs", 0, Silent())
    assert {name: why.reason for name, why in failures.items()} == {"bad": "no luck"}
    assert (tmp_path / "good").exists()
