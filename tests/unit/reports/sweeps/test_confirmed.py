"""The report of a confirmation."""

from __future__ import annotations

import pytest
from sweep_cells import GRID, PASS_1, at, done, drawn

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.confirmed import FreshTrial, confirmed_document
from sage_cli.reports.sweeps.data import SweepResult

# in the search trial 2 is the best; with fresh seeds trial 1 is
SEARCHED = SweepResult(
    GRID, ("pass@1",), 0.95, done({}, 9, -1.0),
    (done(at(GRID, 0.8, 0.1), 1, 0.2), done(at(GRID, 0.8, 0.3), 2, 0.5)),
)  # fmt: skip
INITIAL = {"bench": drawn(7, -1.0)}


def fresh(place: int, gain: float, seeds: int = 3, failures: tuple[str, ...] = ()) -> FreshTrial:
    counts = tuple({"bench": drawn(50 + 10 * place + seed, gain)} for seed in range(seeds))
    return FreshTrial(place, tuple(f"rl-{seed}" for seed in range(3)), counts, INITIAL, failures)


def report(*trials: FreshTrial, searched: str = "dev"):
    names = ([searched], ["bench"])
    return confirmed_document("mine", SEARCHED, (PASS_1,), trials, names, 3, Provenance())


def test_search_and_confirmation_stand_beside_each_other_and_the_order_may_change() -> None:
    found = report(fresh(0, 1.0), fresh(1, 0.0))
    ranking = found.data["rankings"]["pass@1"]
    assert (ranking["search"], ranking["confirmed"], ranking["holds"]) == ([2, 1], [1, 2], False)
    assert ranking["lead"].value < 0
    assert ranking["lead"].high < 0  # 1.0 in log-odds is seen by 40 problems
    one = found.data["trials"][0]["values"]["pass@1"]
    initial = INITIAL["bench"]
    assert one["gain"].value == pytest.approx(one["value"] - float((initial.c_P / 64).mean()))
    assert one["gain"].low < one["gain"].value < one["gain"].high
    base = SEARCHED.base.values["pass@1"]
    assert one["search_gain"] == pytest.approx(SEARCHED.trials[0].values["pass@1"] - base)
    assert "not the best: trial 1 is; less the best of the others -0." in found.notes[1]
    assert "problems and seeds" in found.notes[0]


def test_failed_runs_are_named_and_a_trial_without_any_has_no_values() -> None:
    found = report(fresh(1, 0.5, 2, ("rl-2: killed: gone",)), fresh(0, 0, 0, ("rl-0: refused: x",)))
    first, second = found.data["trials"]
    assert second["values"] is None
    assert found.tables[0].rows[0].cells[-1] == 2
    assert found.notes[-2:] == ("trial 2: rl-2: killed: gone", "trial 1: rl-0: refused: x")
    assert found.data["rankings"]["pass@1"]["lead"] is None
    assert not [note for note in found.notes if "best" in note]
    assert first["values"] is not None


def test_selecting_on_what_is_reported_is_said() -> None:
    assert report(fresh(1, 0.5)).data["selected_on_reported"] is None
    found = report(fresh(1, 0.5), searched="bench")
    assert found.data["selected_on_reported"] == "bench"
    assert "the luck of problems is still in the confirmed gain" in found.notes[-1]
