"""Pages beside their registration, their runs and their published measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_page import edited, made_up, write_page
from registered_suite import begin_a_run, plan

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.trials.suites.registered import found as module
from sage_cli.trials.suites.registered.registration import read_registration, write_registration
from sage_cli.trials.suites.registered.standing import register
from sage_cli.trials.suites.registered.verify import Verified, verify

Change = tuple[str, str]


def registered(folder: Path) -> Path:
    file = folder / "mine.registration.json"
    register(plan(folder), file, late=False, note=None, deviation=None)
    return file


def checked(folder: Path, *changes: Change, published: bool = True) -> Verified:
    """Register, have a run begin, change the suite, write its page, and check it."""
    file = registered(folder)
    begin_a_run(plan(folder))
    page = write_page(plan(folder, *changes), file, folder, published=published)
    return verify(page, None, folder / "runs")


def test_a_page_as_registered_differs_in_nothing(tmp_path: Path) -> None:
    found = checked(tmp_path)
    assert found["differences"] == []
    assert found["source"] == "mine.measurements.parquet"
    assert {"mine: trades", "mine: exact", "mine: stopping"} <= {*found["checked"]}
    assert found["numbers"] > 100


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (("rl.steps: 2", "rl.steps: 2, rl.seed: 5"), "seed", "rl.seed (anchor, branch)"),
        (("seeds: 2", "seeds: 3"), "seed", "training seeds of branch"),
        (("k: 1,256", "k: 1,64"), "k", "k"),
        (
            ("held_out: 40", "held_out: 50"), "data",
            "measured problems of initial policy 41 (all methods)",
        ),
        (("within: 0.01", "within: 0.1"), "stopping rule", "stop: within"),
        (("against: anchor", "against: base"), "trade", "first: against"),
        (("rl.steps: 2", "rl.steps: 3"), "setting", "rl.steps (anchor, branch)"),
        (("grpo/branch/reverse", "grpo/token/reverse"), "setting", "guide.name (branch)"),
    ],
)  # fmt: skip
def test_what_changed_after_a_run_is_named(
    tmp_path: Path, change: Change, kind: str, name: str
) -> None:
    found = checked(tmp_path, change)["differences"]
    assert (kind, name) in [(one["kind"], one["name"]) for one in found]
    assert not any("not named on the page" in one["name"] for one in found)


def test_a_claim_that_was_added_after_a_run_is_named(tmp_path: Path) -> None:
    changes = [
        ("measured: exact\ntemperatures: [1.0, 1.2]\n", ""),
        ("initial_policies: [41, 42, 43]\n", ""),
        ("trades:\n  - {name: first, method: branch, against: anchor, primary: true}\n", ""),
        ("stop: {first: 3, look_every: 1, most: 6, within: 0.01}\n", ""),
    ]
    file = tmp_path / "mine.registration.json"
    register(plan(tmp_path, *changes), file, late=False, note=None, deviation=None)
    begin_a_run(plan(tmp_path, *changes))
    later = ("k: 1,256", "k: 1,256\nclaims: branch > anchor at pass@8")
    page = write_page(plan(tmp_path, later, *changes), file, tmp_path, published=False)
    found = verify(page, None, tmp_path / "runs")["differences"]
    claim = {
        "kind": "claim", "name": "branch > anchor at pass@8", "registered": "–",
        "now": "decided later",
    }  # fmt: skip
    assert claim in found


def test_a_changed_number_is_named(tmp_path: Path) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path), file, tmp_path)
    (trade,) = json.loads(page.read_text())["chapters"][0]["sections"]["trades"]["trades"]
    edited(page, f'"difference": {trade["difference"]}', '"difference": 0.0351')
    found = verify(page, None, tmp_path / "runs")["differences"]
    # the trade, and the first look of the stopping rule at it
    assert [(one["kind"], one["registered"]) for one in found] == [("number", "0.0351")] * 2
    assert found[0]["name"].startswith("mine: trades: trades[first")


def test_a_section_that_was_removed_is_named(tmp_path: Path) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path), file, tmp_path)
    whole = json.loads(page.read_text())
    del whole["chapters"][0]["sections"]["trades"]
    page.write_text(json.dumps(whole))
    found = verify(page, None, tmp_path / "runs")["differences"]
    assert [one["name"] for one in found] == ["mine: trades: not on the page"]


@pytest.mark.parametrize("lacking", ["sections", "hash"])
def test_a_damaged_page_is_named(tmp_path: Path, lacking: str) -> None:
    page = write_page(plan(tmp_path), registered(tmp_path), tmp_path)
    edited(page, f'"{lacking}":', '"other":')
    with pytest.raises(StoreError, match="is no page as a suite's report writes it"):
        verify(page, None, tmp_path / "runs")


def test_numbers_come_from_runs_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path), file, tmp_path, published=False)
    (found,) = made_up(plan(tmp_path))
    monkeypatch.setattr(module, "results", lambda part, stored, failures: found)
    same = verify(page, None, tmp_path / "runs")
    assert (same["source"], same["differences"]) == ("runs", [])


def test_without_runs_and_counts_nothing_is_checked(tmp_path: Path) -> None:
    found = checked(tmp_path, published=False)
    (one,) = found["differences"]
    assert "no number could be checked" in one["name"]
    assert found["source"] == "none"


def test_a_hidden_departure_and_another_registration_are_named(tmp_path: Path) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path, ("k: 1,256", "k: 1,64")), file, tmp_path)
    edited(page, '"kind": "k"', '"kind": "title"')
    names = [one["name"] for one in verify(page, None, tmp_path / "runs")["differences"]]
    assert "k: not named on the page" in names
    file.unlink()
    registered(tmp_path)
    names = [one["name"] for one in verify(page, None, tmp_path / "runs")["differences"]]
    assert "the page was written with another registration" in names


def test_an_edited_registration_is_named(tmp_path: Path) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path), file, tmp_path)
    held = read_registration(file)
    held["registered"] = "2020-01-01"
    write_registration(file, held)
    (one,) = verify(page, None, tmp_path / "runs")["differences"]
    assert one["kind"] == "registration"


def test_a_page_that_pretends_is_named(tmp_path: Path) -> None:
    file = registered(tmp_path)
    page = write_page(plan(tmp_path, ("rl.steps: 2", "rl.steps: 3")), file, tmp_path)
    # the page's resolved settings are edited, its declaration is not
    held = json.loads(page.read_text())
    (suite,) = held["chapters"][0]["sections"]["registered"]["decides"]["suites"]
    for label in ("anchor", "branch"):
        suite["methods"][label]["settings"]["rl.steps"] = 2
    page.write_text(json.dumps(held))
    names = [one["name"] for one in verify(page, None, tmp_path / "runs")["differences"]]
    assert any("rebuilt from the page's declaration" in name for name in names)


def test_what_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no page"):
        verify(tmp_path / "mine.json", None, None)
    (tmp_path / "mine.json").write_text('{"chapters": []}')
    with pytest.raises(ConfigurationError, match="says nothing of a registration"):
        verify(tmp_path / "mine.json", None, None)
