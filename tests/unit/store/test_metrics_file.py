"""metrics.jsonl: appended, rewound, read after a crash."""

import math

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.metrics_file import MetricsFile


@pytest.fixture
def metrics(tmp_path):
    file = MetricsFile(tmp_path / "run" / "metrics.jsonl")
    for step in (1, 2, 3):
        file.append({"step": step, "loss": step / 10})
    return file


def steps(file):
    return [record["step"] for record in file.read()]


def test_records_come_back_to_the_last_digit(metrics):
    metrics.append({"step": 4, "loss": 0.1 + 0.2, "nothing": float("nan"), "missing": None})
    last = metrics.read()[-1]
    assert last["loss"] == 0.30000000000000004
    assert math.isnan(last["nothing"])
    assert last["missing"] is None


@pytest.mark.parametrize(("step", "left"), [(0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_rewind_forgets_what_comes_after(metrics, step, left):
    metrics.rewind(step)
    assert steps(metrics) == left
    metrics.append({"step": 7})
    assert steps(metrics) == [*left, 7]


def test_whoever_follows_the_file_goes_on_when_nothing_is_forgotten(metrics):
    with metrics.path.open() as followed:
        assert len(followed.readlines()) == 3
        metrics.rewind(3)
        metrics.append({"step": 4})
        assert followed.readlines() == ['{"step": 4}\n']


def test_a_torn_last_line_is_left_out_and_rewinding_removes_it(metrics):
    with metrics.path.open("a") as handle:
        handle.write('{"step": 4, "lo')
    assert steps(metrics) == [1, 2, 3]
    metrics.rewind(3)
    metrics.append({"step": 4})
    assert steps(metrics) == [1, 2, 3, 4]


def test_the_last_steps_records_alone(metrics):
    metrics.append({"step": 4, "row": 1})
    metrics.append({"step": 4, "row": 2})
    assert metrics.last(4) == [{"step": 4, "row": 1}, {"step": 4, "row": 2}]
    assert metrics.last(5) == []  # it wrote none
    assert MetricsFile(metrics.path.with_name("absent.jsonl")).last(4) == []


def test_a_torn_line_in_the_middle_is_named(metrics):
    lines = metrics.path.read_text().splitlines()
    metrics.path.write_text("\n".join([lines[0], lines[1][:9], lines[2]]) + "\n")
    with pytest.raises(StoreError, match=r"line 2 of .*metrics\.jsonl is torn"):
        metrics.read()


def test_a_run_that_has_not_begun_has_no_records(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.rewind(3)
    assert file.read() == []
    assert not file.path.exists()
