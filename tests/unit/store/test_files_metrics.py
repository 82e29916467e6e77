"""metrics.jsonl: appended, rewound, read after a crash."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.store.files import END_BYTES, MetricsFile


@pytest.fixture
def metrics(tmp_path):
    file = MetricsFile(tmp_path / "run" / "metrics.jsonl", {"step": int})
    for step in (1, 2, 3):
        file.append({"step": step, "loss": step / 10})
    return file


def steps(file):
    return [record["step"] for record in file.read()]


def test_records_come_back_to_the_last_digit_and_by_step(metrics):
    metrics.append({"step": 4, "loss": 0.1 + 0.2, "nothing": float("nan"), "missing": None})
    last = metrics.read()[-1]
    assert last["loss"] == 0.30000000000000004
    assert math.isnan(last["nothing"])
    assert last["missing"] is None
    metrics.append({"step": 5, "row": 1})
    metrics.append({"step": 5, "row": 2})
    assert metrics.last(5) == [{"step": 5, "row": 1}, {"step": 5, "row": 2}]
    assert metrics.last(6) == []  # it wrote none
    absent = MetricsFile(metrics.path.with_name("absent.jsonl"))
    absent.rewind(3)
    assert (absent.read(), absent.last(4), absent.latest()) == ([], [], {})
    assert not absent.path.exists()


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


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "torn", [b'{"step": 2, "lo', b"", b"\xff\xfe", b"[2]", b'{"loss": 0.2}', b'{"step": "2"}', DEEP]
)
def test_whole_records_count_and_a_torn_line_is_named_once(metrics, caplog, torn):
    first, _, third = metrics.path.read_bytes().splitlines()
    metrics.path.write_bytes(b"\n".join([first, torn, third]) + b"\n")
    assert steps(metrics) == steps(metrics) == [1, 3]
    assert [record["step"] for record in metrics.last(3)] == [3]
    (said,) = caplog.messages
    assert said == f"{metrics.path} is torn or was edited: line 2 is left out"
    metrics.rewind(3)
    assert metrics.path.read_bytes() == b"\n".join([first, third]) + b"\n"


def test_of_many_torn_lines_the_first_are_named(metrics, caplog):
    metrics.path.write_bytes(b"torn\n" * 7 + b'{"step": 8}')  # an editor left out the last end
    assert steps(metrics) == [8]
    assert caplog.messages[0].endswith("edited: lines 1, 2, 3, 4, 5, ... are left out")


@given(st.lists(st.binary(max_size=30) | st.just(b'{"step": 1}'), max_size=6))
def test_no_content_of_the_file_ends_in_an_error(tmp_path_factory, lines):
    file = MetricsFile(tmp_path_factory.mktemp("any") / "metrics.jsonl", {"step": int})
    file.path.write_bytes(b"\n".join(lines))
    assert set(steps(file)) <= {1}
    assert len(file.last(1)) <= len(file.read())
    file.rewind(0)
    assert file.path.read_bytes() == b""


@pytest.mark.parametrize("torn", [b"", b'{"step": 9', b'{"of": 1}\n' * 3])
def test_the_latest_record_of_a_long_file_is_that_of_all_its_lines(tmp_path, torn):
    file = MetricsFile(tmp_path / "metrics.jsonl", {"step": int})
    lines = [b'{"step": %d, "text": "%s"}\n' % (step, b"x" * 1_000) for step in range(40)]
    file.path.write_bytes(b"".join(lines) + torn)
    assert file.path.stat().st_size > 2 * END_BYTES
    assert file.latest()["step"] == 39
    # no whole line in the end of the file: the one before it counts
    file.path.write_bytes(lines[0] + b"x" * 2 * END_BYTES)
    assert file.latest()["step"] == 0
