"""A training's speed, from its records, by hand."""

from __future__ import annotations

import pytest

from sage_cli.store.run_facts import speed_figures


def record(step_s: float, loss_s: float, **more: float) -> dict[str, float]:
    phases = {"generate": 1.0, "sync": 0.0, "grade": 0.5, "reference": 0.25, "loss": loss_s}
    timed = {f"time/{phase}_s": value for phase, value in phases.items()}
    return {"time/step_s": step_s, **timed, **more}


def test_medians_shares_and_the_highest_peak():
    found = speed_figures(
        [
            record(8.0, 1.0, **{"time/generated_tokens_per_s": 10, "memory/peak_gib": 3}),
            record(4.0, 2.0, **{"time/generated_tokens_per_s": 30, "memory/peak_gib": 5}),
            record(4.0, 3.0, **{"memory/peak_gib": 4}),  # a step on completions of before
        ]
    )
    assert found["speed/step_s"] == 4
    assert found["speed/generated_tokens_per_s"] == 20
    assert found["speed/share/generate"] == pytest.approx(3 / 16)
    assert found["speed/share/loss"] == pytest.approx(6 / 16)
    assert found["memory/peak_gib"] == 5
    assert "speed/trained_tokens_per_s" not in found


def test_records_without_times_say_nothing():
    assert speed_figures([]) == {}
    assert speed_figures([{"step": 1, "loss": 0.5}]) == {}
