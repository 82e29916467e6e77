"""Figures of points in rows."""

import pytest

from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.dots import heights

HALF = Estimate(0.5)


def test_a_row_is_read_across_its_panels_its_points_around_its_middle():
    panels = {
        "pass@1": {"grpo": {"less base": HALF}, "branch": {"less base": HALF, "− grpo": HALF}},
        "pass@8": {"no KL": {"− grpo": HALF}},
    }
    # two points at most, and air for 1.5: a step is 1 / 3.5, half of it .142857
    assert heights(panels) == {
        "grpo": {"less base": 0.0},
        "branch": {"less base": pytest.approx(0.857143), "− grpo": pytest.approx(1.142857)},
        "no KL": {"− grpo": 2.0},
    }
    panels = {"a": {"grpo": {"one": HALF}}, "b": {"grpo": {"two": HALF}}}
    assert list(heights(panels)["grpo"]) == ["one", "two"]
    assert heights({}) == {}
