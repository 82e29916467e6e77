"""The picture of a suite's differences shows the numbers of its table."""

import re

import pytest
from suite_results import result

from sage_cli.trials.suites.claims import contrasts, differences, forest_panels
from sage_cli.trials.suites.declaration import Suite

SUITE = Suite.model_validate(
    {
        "name": "mine",
        "title": "Mine",
        "methods": {"base": "base", "grpo": "grpo", "grpo-branch": "grpo/branch"},
        "k": "1,4",
        "against": ["base", "grpo"],
    }
)
COUNTS = {
    "base": {"arithmetic": [[0, 0, 1, 3] * 5]},
    "grpo": {"arithmetic": [[0, 1, 2, 4] * 5]},
    "grpo-branch": {"arithmetic": [[4, 4, 4, 4] * 5]},
}


def test_a_row_for_each_method_and_a_point_for_each_that_it_is_compared_with():
    found = {pair: by["arithmetic"] for pair, by in contrasts(result(SUITE, COUNTS)).items()}
    panels = forest_panels(found, (1, 4))
    assert list(panels) == ["pass@1", "pass@4"]
    at_1 = panels["pass@1"]
    assert {row: list(points) for row, points in at_1.items()} == {
        "grpo": ["less initial policy"],
        "grpo-branch": ["less grpo", "less initial policy"],  # its own control first
    }
    # c/n: branch 1; grpo (0 + 1 + 2 + 4) / 16 = .4375; base (0 + 0 + 1 + 3) / 16 = .25
    assert at_1["grpo-branch"]["less initial policy"].value == pytest.approx(0.75)
    assert at_1["grpo-branch"]["less grpo"].value == pytest.approx(0.5625)
    gap = found["grpo-branch", "grpo"].difference
    assert at_1["grpo-branch"]["less grpo"].interval == (gap.low_K[0], gap.high_K[0])
    # at k = 4 of 4 samples whoever has a right one has solved it: 1 less (0 + 1 + 1 + 1) / 4
    assert panels["pass@4"]["grpo-branch"]["less grpo"].value == pytest.approx(0.25)


def test_the_section_draws_it_with_every_method_named(tmp_path):
    (figure,) = differences(result(SUITE, COUNTS)).figures
    figure.draw(tmp_path / figure.stem)
    drawn = (tmp_path / "differences.svg").read_text()
    named = set(re.findall(r"<!-- (.*?) -->", drawn))
    assert {"pass@1", "pass@4", "grpo", "grpo-branch", "less initial policy", "less grpo"} <= named
    assert differences(result(SUITE, {"base": COUNTS["base"]})).figures == ()
