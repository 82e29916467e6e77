"""state.json of a suite: how each task ended, for readers while the suite runs."""

from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.task import FILE, Task, TaskStates, stored_states


def task(name, needs=None, state="to do"):
    return Task(name, name, (name,), None, lambda: state == "done", Resources(), needs=needs)


def test_each_end_is_written_at_once(tmp_path):
    first = task("one", state="done")
    states = TaskStates(tmp_path, [first, task("two", needs=first)])
    assert [(one["name"], one["state"]) for one in stored_states(tmp_path)] == [
        ("one", "done"),
        ("two", "to do"),
    ]
    states.note("two", "failed")
    states.note("of another suite", "done")
    assert stored_states(tmp_path)[1] == {
        "name": "two", "title": "two", "command": "sage two", "needs": "one", "state": "failed",
    }  # fmt: skip


def test_a_missing_or_torn_file_has_no_tasks(tmp_path):
    assert stored_states(tmp_path) == []
    (tmp_path / FILE).write_text("{")
    assert stored_states(tmp_path) == []
