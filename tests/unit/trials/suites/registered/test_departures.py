"""Departures from a registration, each by name."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
from registered_suite import plan

from sage_cli.trials.suites.registered.decided import decides
from sage_cli.trials.suites.registered.departures import Departure, departures


def departing(
    folder: Path, *changes: tuple[str, str], sets: tuple[str, ...] = ()
) -> list[Departure]:
    return departures(decides(plan(folder)), decides(plan(folder, *changes, sets=sets)))


def test_the_same_suite_departs_in_nothing(tmp_path: Path) -> None:
    assert departing(tmp_path) == []
    # titles decide nothing
    assert departing(tmp_path, ("Branch at", "The branch guide at")) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("k: 1,256", "k: 1,64", ("k", "k", "1,256", "1,64")),
        ("most: 6", "most: 5", ("stopping rule", "stop: most", "6", "5")),
        (
            "stop: {first: 3, look_every: 1, most: 6, within: 0.01}", "",
            ("stopping rule", "stop", "registered", "not here"),
        ),
        (
            "name: first, method", "name: first, guesses: false, method",
            ("trade", "first: guesses", "True", "False"),
        ),
        ("rl.steps: 2", "rl.steps: 3", ("setting", "rl.steps (anchor, branch)", "2", "3")),
        (
            "anchor: grpo/none/reverse", "anchor: {of: grpo/none, settings: {anchor.beta: 0.5}}",
            ("setting", "anchor.beta (anchor)", "0.04", "0.5"),
        ),
        ("seeds: 2", "seeds: 3", ("seed", "training seeds of branch", "2", "3")),
        (
            "[41, 42, 43]", "[41, 42, 44]",
            ("initial policies", "initial policies", "41, 42, 43", "41, 42, 44"),
        ),
        (
            "temperatures: [1.0, 1.2]", "temperatures: [1.0, 1.3]",
            ("measurement", "temperatures", "1, 1.2", "1, 1.3"),
        ),
    ],
)  # fmt: skip
def test_what_changes_is_named(
    tmp_path: Path, old: str, new: str, expected: tuple[str, str, str, str]
) -> None:
    found = [(*one.values(),) for one in departing(tmp_path, (old, new))]
    assert expected in found


def test_a_changed_seed_is_named_with_its_values(tmp_path: Path) -> None:
    found = departing(tmp_path, ("rl.steps: 2", "rl.steps: 2, rl.seed: 5"))
    assert {one["kind"] for one in found} == {"seed"}
    assert "rl.seed (anchor, branch)" in [one["name"] for one in found]


def test_changed_problems_are_data(tmp_path: Path) -> None:
    found = departing(tmp_path, ("held_out: 40", "held_out: 50"))
    names = [one["name"] for one in found]
    assert names == [
        "data.arithmetic.held_out (all methods)",
        *(f"measured problems of initial policy {one} (all methods)" for one in (41, 42, 43)),
        *(f"training problems of initial policy {one} (anchor, branch)" for one in (41, 42, 43)),
    ]
    assert {one["kind"] for one in found[1:]} == {"data"}


def test_a_run_that_changed_for_no_named_reason(tmp_path: Path) -> None:
    before, after = decides(plan(tmp_path)), decides(plan(tmp_path))
    after["suites"][0]["methods"]["branch"]["replicates"][1]["run"] = "other"
    after["results"] += 1
    version, run = departures(before, after)
    assert (version["kind"], version["name"]) == ("code", "version of results")
    assert (run["kind"], run["name"], run["now"]) == (
        "identity", "run of seed 2 of initial policy 41 (branch)", "other",
    )  # fmt: skip


def test_added_and_missing_methods_and_trades(tmp_path: Path) -> None:
    more = departing(tmp_path, ("base: base", "base: base\n  free: grpo/none/none"))
    assert more == [{"kind": "method", "name": "free", "registered": "–", "now": "decided later"}]
    trade = "- {name: second, method: branch, against: base}\nstop:"
    assert departing(tmp_path, ("stop:", f"  {trade}")) == [
        {"kind": "trade", "name": "second", "registered": "–", "now": "decided later"}
    ]
    backwards = departures(
        decides(plan(tmp_path, ("base: base", "base: base\n  free: grpo/none/none"))),
        decides(plan(tmp_path)),
    )
    assert [one["now"] for one in backwards] == ["not here"]


def test_the_stopping_rule_allows_further_initial_policies(tmp_path: Path) -> None:
    wanted = "[41, 42, 43]"
    assert departing(tmp_path, (wanted, "[41, 42, 43, 44, 45, 46]")) == []
    for other in ("[41, 42, 43, 45]", "[41, 42, 43, 44, 45, 46, 47]", "[41, 42]"):
        (found,) = departing(tmp_path, (wanted, other))
        assert found["kind"] == "initial policies"


def test_a_setting_that_came_later_is_no_departure_while_runs_are_the_same(tmp_path: Path) -> None:
    before, after = decides(plan(tmp_path)), decides(plan(tmp_path))
    del before["suites"][0]["settings"]["data.rare_way.low"]
    assert departures(before, after) == []
    for method in before["suites"][0]["methods"].values():
        for one in method["replicates"]:
            one["run"] = "another"
    assert "data.rare_way.low (all methods)" in {one["name"] for one in departures(before, after)}


def test_a_key_that_came_later_is_no_departure_while_nothing_is_said(tmp_path: Path) -> None:
    after = decides(plan(tmp_path))
    before = deepcopy(after)
    del before["suites"][0]["declaration"]["interactions"]
    assert departures(before, after) == []
    after["suites"][0]["declaration"]["interactions"] = ["branch"]
    assert [(one["kind"], one["name"]) for one in departures(before, after)] == [
        ("measurement", "interactions")
    ]
