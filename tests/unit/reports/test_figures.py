"""Where points with intervals are drawn."""

from __future__ import annotations

import pytest

from sage_cli.reports.figures import Legend, by_method, heights, seeded, series_styles
from sage_cli.reports.tables import Estimate


def test_seeds_of_a_method_belong_together_in_the_order_in_which_they_are_shown() -> None:
    labels = ["base", seeded("grpo", 1), "grpo, no KL", seeded("grpo", 2), ", seed 3", "a, seed x"]
    assert by_method(labels) == {
        "base": ["base"],
        "grpo": ["grpo, seed 1", "grpo, seed 2"],
        "grpo, no KL": ["grpo, no KL"],
        ", seed 3": [", seed 3"],
        "a, seed x": ["a, seed x"],
    }


@pytest.mark.parametrize(("methods", "seeds"), [(9, 1), (9, 3), (14, 3), (42, 1)])
def test_no_two_series_look_the_same_and_a_methods_seeds_share_its_colour(
    methods: int, seeds: int
) -> None:
    names = [f"method {place}" for place in range(methods)]
    labels = [seeded(name, seed) for name in names for seed in range(1, seeds + 1)]
    styles = series_styles(labels)
    lines = {(one["color"], str(one["linestyle"])) for one in styles.values()}
    points = {(one["color"], one["marker"]) for one in styles.values()}
    assert len(lines) == len(points) == methods * seeds
    for name in names:
        assert len({styles[seeded(name, seed)]["color"] for seed in range(1, seeds + 1)}) == 1


def test_a_legend_has_as_many_columns_as_fit_and_even_rows() -> None:
    # 10 letters take .38 + .63 in, and .25 before the next: two take 2.27 in, three 3.53
    labels = [f"{place:10}" for place in range(5)]
    legend = Legend.of(labels, 3.5)
    assert legend.columns == 2
    assert legend.height_in == pytest.approx(3 * 0.19)
    assert Legend.of(labels, 3.6).columns == 3
    # four take 4.79 in, and five want two rows all the same: three and two
    assert Legend.of(labels, 4.8).columns == 3
    assert Legend.of([], 3.6).height_in == 0


def test_the_initial_policy_looks_the_same_in_every_picture() -> None:
    alone = series_styles(["base"])["base"]
    beside = series_styles(["grpo, seed 1", "grpo, seed 2", "base"])
    assert (
        beside["base"]
        == alone
        == series_styles(["a", "sft-arithmetic-12ab"])["sft-arithmetic-12ab"]
    )
    assert list(beside) == ["grpo, seed 1", "grpo, seed 2", "base"]
    many = series_styles([f"method {place}" for place in range(12)])
    assert alone["color"] not in {style["color"] for style in many.values()}
    two = series_styles(["sft-a", "sft-b"])
    assert two["sft-a"]["linestyle"] != two["sft-b"]["linestyle"]


HALF = Estimate(0.5)


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
