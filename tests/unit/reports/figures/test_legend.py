"""Legends: which series look alike, and how many columns fit."""

import pytest

from sage_cli.reports.figures.legend import Legend, series_styles
from sage_cli.reports.labels import by_method, seed_title


def test_seeds_of_a_method_belong_together_in_the_order_in_which_they_are_shown():
    labels = [
        "base",
        seed_title("grpo", 1),
        "grpo, no KL",
        seed_title("grpo", 2),
        ", seed 3",
        "a, seed x",
    ]
    assert by_method(labels) == {
        "base": ["base"],
        "grpo": ["grpo, seed 1", "grpo, seed 2"],
        "grpo, no KL": ["grpo, no KL"],
        ", seed 3": [", seed 3"],
        "a, seed x": ["a, seed x"],
    }


@pytest.mark.parametrize(("methods", "seeds"), [(9, 1), (9, 3), (14, 3), (42, 1)])
def test_no_two_series_look_the_same_and_a_methods_seeds_share_its_colour(methods, seeds):
    names = [f"method {place}" for place in range(methods)]
    labels = [seed_title(name, seed) for name in names for seed in range(1, seeds + 1)]
    styles = series_styles(labels)
    lines = {(one["color"], str(one["linestyle"])) for one in styles.values()}
    points = {(one["color"], one["marker"]) for one in styles.values()}
    assert len(lines) == len(points) == methods * seeds
    for name in names:
        assert len({styles[seed_title(name, seed)]["color"] for seed in range(1, seeds + 1)}) == 1


def test_a_legend_has_as_many_columns_as_fit_and_even_rows():
    # 10 letters take .38 + .63 in, and .25 before the next: two take 2.27 in, three 3.53
    labels = [f"{place:10}" for place in range(5)]
    legend = Legend.from_labels(labels, 3.5)
    assert legend.columns == 2
    assert legend.height_in == pytest.approx(3 * 0.19)
    assert Legend.from_labels(labels, 3.6).columns == 3
    # four take 4.79 in, and five want two rows all the same: three and two
    assert Legend.from_labels(labels, 4.8).columns == 3
    assert Legend.from_labels([], 3.6).height_in == 0


def test_the_initial_policy_looks_the_same_in_every_picture():
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
