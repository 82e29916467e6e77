"""What the server keeps is bounded, and the latest."""

from sage_cli.view.stored.runs_read import Remembered


def test_a_result_is_made_once():
    made, kept = [], Remembered(10)
    for _ in range(3):
        assert kept.get("a", lambda: made.append(1) or "result") == "result"
    assert made == [1]


def test_the_sizes_of_what_is_kept_are_bounded():
    kept = Remembered(10, len)
    kept.get("a", lambda: "x" * 6)
    kept.get("b", lambda: "x" * 4)
    kept.get("a", lambda: "lost")  # a is the latest now
    kept.get("c", lambda: "x" * 4)  # 6 + 4 + 4 > 10, so b, the oldest, goes
    assert kept.get("a", lambda: "lost") == "x" * 6
    assert kept.get("b", lambda: "again") == "again"


def test_one_result_larger_than_the_room_is_kept_alone():
    kept = Remembered(10, len)
    kept.get("a", lambda: "x" * 6)
    assert kept.get("b", lambda: "x" * 50) == "x" * 50
    assert kept.get("b", lambda: "again") == "x" * 50
    assert kept.get("a", lambda: "again") == "again"
