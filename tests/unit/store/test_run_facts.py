"""Facts of runs: a sweep's runs with torn lines, and the speed of a training."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.store.run_facts import Entry, SweepRuns, speed_figures

ENTRIES = [Entry({"guide.tau": 0.1 * place}, place, f"rl-{place}") for place in range(3)]


def runs(tmp_path, *entries):
    made = SweepRuns(tmp_path / "sweep")
    for entry in entries:
        made.append(entry)
    return made


def test_what_is_appended_is_read_in_order(tmp_path):
    assert runs(tmp_path).entries() == []
    assert runs(tmp_path, *ENTRIES).entries() == ENTRIES


@given(cut=st.data())
def test_a_last_line_torn_anywhere_costs_that_line_alone(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("torn")
    torn = runs(folder, *ENTRIES[:2])
    content = torn.path.read_bytes()
    first = content.index(b"\n") + 1
    kept = cut.draw(st.integers(first, len(content)))
    torn.path.write_bytes(content[:kept])
    # a line that lacks nothing but its end is whole
    before = ENTRIES[:2] if kept >= len(content) - 1 else ENTRIES[:1]
    assert torn.entries() == before
    torn.append(ENTRIES[2])
    assert torn.entries() == [*before, ENTRIES[2]]
    torn.mend()
    assert [json.loads(line)["run"] for line in torn.path.read_text().splitlines()] == [
        entry.run for entry in torn.entries()
    ]
    assert torn.entries() == [*before, ENTRIES[2]]


def test_lines_that_are_no_entries_are_passed_over_and_taken_away(tmp_path, caplog):
    """Two glued lines, bytes that are no text, JSON of other kinds or too deep."""
    good = runs(tmp_path, *ENTRIES)
    first, *rest = good.path.read_bytes().splitlines(keepends=True)
    deep = b"[" * 100_000
    others = [b'{"point": {"gui' + first, b"\xff\xfe\n", b"3\n", b'{"run": "x"}\n', deep + b"\n",
              b'{"point": 1, "seed": 0, "run": "x"}\n', b"\n"]  # fmt: skip
    good.path.write_bytes(b"".join([first, *others, *rest]))
    assert good.entries() == ENTRIES
    good.mend()
    assert good.path.read_bytes() == b"".join([first, *rest])
    assert caplog.messages == [f"{good.path} had 7 torn lines, which were removed"]


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
