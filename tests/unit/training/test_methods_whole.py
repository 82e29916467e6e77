"""Whole trainings of each method: a guide without strength changes nothing to the last bit."""

import pytest
from resumed import SETTINGS
from toy_policy import timeless, weights

from sage_cli.methods.method import Method
from sage_cli.settings.section import built_in

ELSEWHERE = {"bnpo", "dr-grpo", "dph-rl", "support-floor"}
"""Plain ones, and methods that take stored completions."""
GUIDED = [
    name
    for name, method in built_in(Method).items()
    if method.takes_a_guide and name not in ELSEWHERE
]


@pytest.mark.parametrize("name", GUIDED)
def test_with_a_flat_guide_it_ends_as_plain_to_the_last_bit(bench, configure, name):
    settings = {"algo": name, **SETTINGS.get(name, {}), "stop_when_stuck": False}
    settings |= {"micro_batch": 8, "steps_per_generation": 1, "iterations": 2}
    if name == "80-20":
        settings["overlong_buffer"] = 0.5
    plain = bench.run(configure(rl=settings), "plain")
    branch = {"name": "branch", "tau": 0.5}
    flat = bench.run(configure(rl=settings, guide=branch | {"rho": 0.0}), "flat")
    assert timeless(flat, "guide/") == timeless(plain, "guide/")
    assert weights(bench.folder / "flat/model") == weights(bench.folder / "plain/model")
    steep, *_ = bench.run(configure(rl=settings | {"steps": 2}, guide=branch | {"rho": 3.0}), "on")
    assert steep["loss"] != plain[0]["loss"]
    # what a step draws: all of a generation's completions in its first step, none in the second
    drawn = [record["sampled/completions"] for record in plain]
    assert min(drawn[::2]) >= 16
    assert drawn[1::2] == [0, 0]
    if name == "adaptive-entropy":
        coefficients = [record["entropy/coefficient"] for record in plain]
        assert coefficients == pytest.approx([0.005, 0.01, 0.015, 0.02])
