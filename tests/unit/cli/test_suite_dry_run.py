"""What a reader of a suite's plan is told beside its tasks."""

from pathlib import Path

from sage_cli.cli.suite_run import plan_suite
from sage_cli.trials.suites.trials import Overrides


def noted(name: str, root: Path) -> list[str]:
    return plan_suite(name, Overrides(("tiny",), (), 1, {"run": {"root": root}}))["notes"]


def test_methods_that_are_the_same_here_are_named(tmp_path: Path) -> None:
    twins = [one for one in noted("figure6", tmp_path) if "run once" in one]
    assert twins == [
        "figure6: base-3b is base-1.5b under these settings, and is run once",
        "figure6: grpo-3b is grpo-1.5b under these settings, and is run once",
        "figure6: branch-3b is branch-1.5b under these settings, and is run once",
    ]


def test_methods_that_differ_are_not_and_own_controls_are_named(tmp_path: Path) -> None:
    controls = [one for one in noted("table1", tmp_path) if "own control" in one]
    assert controls == [
        f"table1: grpo-{guide}'s own control is grpo" for guide in ("random", "token", "branch")
    ]
    assert not [one for one in noted("table1", tmp_path) if "run once" in one]


def test_ks_that_end_earlier_than_the_suites_are_told(tmp_path: Path) -> None:
    capped = [one for one in noted("table1", tmp_path) if "k ends at" in one]
    overrides = Overrides(("tiny",), ("evaluation.samples=64",), 1, {"run": {"root": tmp_path}})
    (note,) = [one for one in plan_suite("table1", overrides)["notes"] if "k ends at" in one]
    assert capped == []  # tiny draws the 256 samples that the table asks for
    assert note.startswith("table1: k ends at 64, not as in the suite's 1")
