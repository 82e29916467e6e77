"""How a mirror is kept up with a run, whatever program it belongs to."""

import pytest

from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.mirrors import Follower


class Remembering:
    """A mirror that remembers its calls and fails where it is told to."""

    name = "memory"

    def __init__(self, failing=""):
        self.calls, self.failing = [], failing

    def _called(self, *call):
        self.calls.append(call)
        if call[0] == self.failing:
            raise RuntimeError("no memory left")

    def open(self, trained_from):
        self._called("open", trained_from)

    def log(self, record, rollouts):
        self._called("log", record["step"], [row["step"] for row in rollouts])

    def summarise(self, figures):
        self._called("summarise", dict(figures))

    def close(self):
        self._called("close")


@pytest.fixture
def begun(run):
    """The run after two steps of an earlier session."""
    for step in (1, 2):
        run.rollouts.append({"step": step})
        run.rollouts.append({"step": step})
        run.metrics.append({"step": step})
    return run


def go_on(run, mirror):
    """A session of steps 3 and 4, of which only 4 keeps a rollout."""
    follower = Follower(mirror, run)
    for step in (3, 4):
        if step == 4:
            run.rollouts.append({"step": step})
        run.metrics.append({"step": step})
        follower.log({"step": step})
    follower.close()


def test_what_came_before_is_replayed_and_then_each_step_follows(begun):
    mirror = Remembering()
    go_on(begun, mirror)
    assert mirror.calls == [
        ("open", 3),
        ("log", 1, [1, 1]),
        ("log", 2, [2, 2]),
        ("log", 3, []),
        ("log", 4, [4]),
        ("close",),
    ]


def test_evaluations_are_shown_while_a_mirror_is_open_and_afterwards(begun):
    mirror = Remembering()
    follower = Follower(mirror, begun)
    follower.log({"step": 2})
    record_evaluation(begun, "aime", {"pass@1": 0.5})
    follower.show_evaluations()
    follower.close()
    assert [call[0] for call in mirror.calls] == ["open", "log", "log", "summarise", "close"]
    record_evaluation(begun, "aime", {"pass@1": 0.5})
    mirror = Remembering()
    Follower(mirror, begun).show_evaluations()
    assert mirror.calls == [
        ("open", None),
        ("log", 1, [1, 1]),
        ("log", 2, [2, 2]),
        ("summarise", {"eval/aime/pass@1": 0.5}),
        ("close",),
    ]


@pytest.mark.parametrize("failing", ["open", "log", "summarise", "close"])
def test_a_failing_mirror_is_given_up_with_one_warning(begun, caplog, failing):
    record_evaluation(begun, "aime", {"pass@1": 0.5})
    mirror = Remembering(failing)
    go_on(begun, mirror)
    assert [call[0] for call in mirror.calls].count(failing) == 1
    assert mirror.calls[-1][0] == failing  # and nothing after it
    (said,) = caplog.messages
    assert said == f"memory stopped mirroring {begun.id}: no memory left; metrics.jsonl is complete"


def test_a_training_without_a_single_step_opens_nothing(run):
    mirror = Remembering()
    Follower(mirror, run).close()
    assert mirror.calls == []
