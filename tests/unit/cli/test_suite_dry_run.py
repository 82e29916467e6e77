"""What a reader of a suite's plan is told beside its tasks."""

import pytest

from sage_cli.cli.suite_run import plan_suite
from sage_cli.errors import DataError
from sage_cli.trials.suites.trials import Overrides


def noted(name, root):
    return plan_suite(name, Overrides(("tiny",), (), 1, {"run": {"root": root}}))["notes"]


def test_methods_that_are_the_same_here_are_named(tmp_path):
    twins = [one for one in noted("figure6", tmp_path) if "run once" in one]
    assert twins == [
        "figure6: base-3b is base-1.5b under these settings, and is run once",
        "figure6: grpo-3b is grpo-1.5b under these settings, and is run once",
        "figure6: branch-3b is branch-1.5b under these settings, and is run once",
    ]


def test_methods_that_differ_are_not_and_own_controls_are_named(tmp_path):
    controls = [one for one in noted("table1", tmp_path) if "own control" in one]
    assert controls == [
        f"table1: grpo-{guide}'s own control is grpo" for guide in ("random", "token", "branch")
    ]
    assert not [one for one in noted("table1", tmp_path) if "run once" in one]


def test_ks_that_end_earlier_than_the_suites_are_told(tmp_path):
    capped = [one for one in noted("table1", tmp_path) if "k ends at" in one]
    overrides = Overrides(("tiny",), ("evaluation.samples=64",), 1, {"run": {"root": tmp_path}})
    (note,) = [one for one in plan_suite("table1", overrides)["notes"] if "k ends at" in one]
    assert capped == []  # tiny draws the 256 samples that the table asks for
    assert note.startswith("table1: k ends at 64, not as in the suite's 1")


@pytest.mark.parametrize("section", ["rl", "sft"])
def test_a_row_that_nothing_can_be_trained_on_is_named(tmp_path, section):
    rows = '{"question": "1+1=?", "gold": "2", "working": "1+1=2"}\n'
    (tmp_path / "own.jsonl").write_text(rows + '{"question": "3"}\n')
    sets = (f"data.{section}.name={tmp_path}/own.jsonl", "evaluation.benchmark=arithmetic")
    with pytest.raises(DataError, match=r"own\.jsonl, line 2"):
        plan_suite("table1", Overrides(("tiny",), sets, 1, {"run": {"root": tmp_path}}))
