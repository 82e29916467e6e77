"""Which values of a sweep have colours of their own."""

import pytest

from sage_cli.reports.sweep_report import Region, region_of_interest, value_scale


def test_a_collapsed_trial_leaves_the_others_their_colours():
    # median .50, best .54: from .54 - 2 x .04 = .46 up; .02 lies below
    assert region_of_interest([0.02, 0.48, 0.50, 0.52, 0.54], 0.54, 0.01) == (
        pytest.approx(0.46), 0.54, True
    )  # fmt: skip


def test_without_an_outlier_the_colours_reach_from_the_least_to_the_best():
    # median .3, best .5: down to .1, which is the least
    assert region_of_interest([0.1, 0.2, 0.3, 0.4, 0.5], 0.5, 0.01) == (0.1, 0.5, False)


def test_few_values_are_all_of_interest():
    assert region_of_interest([0.02, 0.5, 0.52], 0.52, 0.01) == (0.02, 0.52, False)


def test_equal_values_have_equal_colours():
    # all .5 but one: the least range is .1, so colours begin at .4
    region = region_of_interest([0.1, 0.5, 0.5, 0.5], 0.5, 0.1)
    assert region == (pytest.approx(0.4), 0.5, True)


def test_values_below_the_region_have_its_lowest_colour():
    scale = value_scale(Region(0.4, 0.5, clipped=True))
    assert scale.to_rgba(0.1) == scale.to_rgba(0.4) != scale.to_rgba(0.45)
    assert Region(0.4, 0.5, clipped=True).extend == "min"
    assert Region(0.4, 0.5, clipped=False).extend == "neither"
