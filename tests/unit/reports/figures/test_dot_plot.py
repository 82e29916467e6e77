"""Where points with intervals are drawn."""

import pytest

from sage_cli.reports.figures.dot_plot import heights
from sage_cli.reports.tables.table import Measure

HALF = Measure(0.5)


def test_a_rows_points_are_around_its_middle_whatever_other_rows_have() -> None:
    panels = {
        "pass@1": {"grpo": {"less base": HALF}, "branch": {"less base": HALF, "less grpo": HALF}},
        "pass@8": {"no KL": {"less grpo": HALF}},
    }
    # two points at most, and air for 1.5: a step is 1 / 3.5, half of it .142857
    assert heights(panels) == {
        "grpo": {"less base": 0.0},
        "branch": {"less base": pytest.approx(0.857143), "less grpo": pytest.approx(1.142857)},
        "no KL": {"less grpo": 2.0},
    }


def test_a_row_is_read_across_its_panels() -> None:
    panels = {"a": {"grpo": {"one": HALF}}, "b": {"grpo": {"two": HALF}}}
    assert list(heights(panels)["grpo"]) == ["one", "two"]
    assert heights({}) == {}
