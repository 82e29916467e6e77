"""Whole trainings of each method: guides without strength change nothing, a kill nothing either."""

from __future__ import annotations

import json
from typing import Any

import pytest
from resumed import SETTINGS
from toy_policy import KilledError, killing, timeless, weights

from sage_cli.methods.method import Method
from sage_cli.settings.section import built_in
from sage_cli.store.metrics import MetricsFile

ELSEWHERE = {
    "annealed-kl", "grpo", "bnpo", "dapo", "dr-grpo",
    "pacs", "rlpr", "dars", "dph-rl", "guided-dpo",
    "alpha-dpg", "support-floor",
}  # fmt: skip
"""Methods of rollouts, rewards and losses, which have tests of their own, and plain ones."""


@pytest.mark.parametrize("name", [name for name in built_in(Method) if name not in ELSEWHERE])
def test_with_a_flat_guide_killed_and_resumed_it_ends_as_plain_to_the_last_bit(
    bench: Any, configure: Any, name: str
):
    settings = {"algo": name, **SETTINGS.get(name, {})}
    settings |= {"micro_batch": 8, "steps_per_generation": 1, "iterations": 2}
    if name == "80-20":
        settings["overlong_buffer"] = 0.5
    plain = bench.run(configure(rl=settings), "plain")
    branch = {"name": "branch", "tau": 0.5}
    flat = configure(rl=settings, guide=branch | {"rho": 0.0})
    with pytest.raises(KilledError):
        bench.run(flat, "flat", on_step=killing(3))
    bench.run(flat, "flat")
    found = MetricsFile(bench.folder / "flat/metrics.jsonl").read()
    assert timeless(found, "guide/") == json.loads(json.dumps(timeless(plain, "guide/")))
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
