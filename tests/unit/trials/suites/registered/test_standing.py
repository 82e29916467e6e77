"""What a report says of a suite's registration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from registered_suite import begin_a_run, plan, written

from sage_cli.commands.trials.suite_report import present_registration, register_suite, report_suite
from sage_cli.errors import StoreError
from sage_cli.progress import Silent
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.registered.registration import read_registration, write_registration
from sage_cli.trials.suites.registered.standing import note_registration, standing

FILE = "mine.registration.json"


def overrides(folder: Path) -> Overrides:
    return Overrides(("tiny",), (), None, {"run": {"root": folder / "runs"}})


def register(folder: Path) -> Path:
    name = str(written(folder))
    return register_suite(name, overrides(folder), None, False, None, 0.01)[0]


def section(folder: Path, *changes: tuple[str, str]) -> dict[str, Any]:
    """Return the report's section on the registration."""
    page = report_suite(str(written(folder, *changes)), overrides(folder), Silent())
    assert "registered" in page.facts
    found: dict[str, Any] = page.report.document.data["chapters"][0]["sections"]["registered"]
    return found


def test_the_report_says_when_it_was_registered(tmp_path: Path) -> None:
    file = register(tmp_path)
    found = section(tmp_path)
    held = read_registration(file)
    assert (found["file"], found["hash"]) == (FILE, held["hash"])
    assert found["departures"] == []
    assert any("detect" in note for note in found["notes"])


def test_what_changed_after_a_run_is_marked(tmp_path: Path) -> None:
    file = register(tmp_path)
    found = plan(tmp_path)
    note_registration(found, file)
    begin_a_run(found)
    changes = [("within: 0.01", "within: 0.05"), ("k: 1,256", "k: 1,64")]
    kinds = [one["kind"] for one in section(tmp_path, *changes)["departures"]]
    assert kinds == ["k", "stopping rule"]


def test_an_edited_registration_is_named(tmp_path: Path) -> None:
    file = register(tmp_path)
    held = read_registration(file)
    held["decides"]["suites"][0]["declaration"]["k"] = "1,64"
    write_registration(file, held)
    names = [one["name"] for one in section(tmp_path)["departures"]]
    assert names == ["the registration was changed: its hash is not that of its content", "k"]


def test_a_registration_replaced_after_the_first_run_is_named(tmp_path: Path) -> None:
    file, found = register(tmp_path), plan(tmp_path)
    first = read_registration(file)["hash"]
    note_registration(found, file)
    assert standing(found, file).marks == []
    # before any training it may be replaced
    second = read_registration(register(tmp_path))["hash"]
    assert second != first
    note_registration(found, file)
    assert standing(found, file).marks == []
    # afterwards not, though its hash is right
    begin_a_run(found)
    file.unlink()
    register_suite(str(written(tmp_path)), overrides(tmp_path), None, True, None, None)
    note_registration(found, file)
    changed, late = standing(found, file).marks
    assert changed["name"] == f"{FILE} was {second[:16]} when the first run began"
    assert (late["kind"], late["name"]) == ("late", "registered when 1 of its runs had begun")


def test_without_a_registration_nothing_is_said(tmp_path: Path) -> None:
    name = str(written(tmp_path))
    assert present_registration(name) is None
    assert "registered" not in report_suite(name, overrides(tmp_path), Silent()).facts


def test_a_named_registration_must_be_there(tmp_path: Path) -> None:
    text = ("k: 1,256", "k: 1,256\nregistration: sub/other.json")
    name = str(written(tmp_path, text))
    with pytest.raises(StoreError, match=r"there is no registration .*sub/other\.json"):
        report_suite(name, overrides(tmp_path), Silent())
    file, _ = register_suite(name, overrides(tmp_path), None, False, None, None)
    assert file == tmp_path / "sub" / "other.json"
    assert section(tmp_path, text)["departures"] == []
    # its place decides nothing
    found = standing(plan(tmp_path), file)
    assert found.marks == []
