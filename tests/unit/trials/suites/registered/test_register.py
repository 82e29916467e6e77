"""What a registration holds, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from registered_suite import begin_a_run, plan

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered.registration import (
    Registration,
    is_sealed,
    read_registration,
    write_registration,
)
from sage_cli.trials.suites.registered.standing import register


def registered(
    found: PlannedSuite, file: Path, *, late: bool = False, deviation: float | None = None
) -> Registration:
    return register(found, file, late=late, note=None, deviation=deviation)


def test_it_holds_what_decides_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "mine.registration.json"
    found = registered(plan(tmp_path), file, deviation=0.01)
    assert read_registration(file) == found
    assert is_sealed(found)
    assert found["late"] == []
    assert found["power"]["initial_policies"] == 3
    (suite,) = found["decides"]["suites"]
    assert suite["declaration"]["stop"]["most"] == 6
    assert suite["declaration"]["trades"][0]["name"] == "first"
    assert suite["settings"]["data.arithmetic.held_out"] == 40
    branch = suite["methods"]["branch"]
    assert branch["settings"]["guide.name"] == "branch"
    assert branch["settings"]["rl.steps"] == 2
    # three initial policies, two seeds each
    assert [(one["initial_policy"], one["seed"]) for one in branch["replicates"]] == [
        ("41", 1), ("41", 2), ("42", 1), ("42", 2), ("43", 1), ("43", 2),
    ]  # fmt: skip
    first, second, third, *_ = branch["replicates"]
    assert first["settings"]["data.arithmetic.seed"] == 41
    assert first["settings"]["rl.seed"] + 1 == second["settings"]["rl.seed"]
    assert first["measured"] == second["measured"] != third["measured"]
    assert len({one["run"] for one in branch["replicates"]}) == 6
    base = suite["methods"]["base"]["replicates"]
    assert [one["trained"] for one in base] == [None] * 3


def test_it_names_no_place_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "mine.registration.json"
    registered(plan(tmp_path), file)
    assert str(tmp_path) not in file.read_text(encoding="utf-8")


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match=r"taken/x\.json can't be written"):
        registered(plan(tmp_path), tmp_path / "taken/x.json")


def test_a_changed_file_is_no_longer_sealed(tmp_path: Path) -> None:
    file = tmp_path / "mine.registration.json"
    found = registered(plan(tmp_path), file)
    found["registered"] = "2020-01-01T00:00:00.000+00:00"
    write_registration(file, found)
    assert not is_sealed(read_registration(file))


def test_after_a_run_it_is_refused_and_late_marks_it(tmp_path: Path) -> None:
    file, found = tmp_path / "mine.registration.json", plan(tmp_path)
    run = begin_a_run(found)
    with pytest.raises(ConfigurationError, match=run):
        registered(found, file)
    assert registered(found, file, late=True)["late"] == [run]
    with pytest.raises(ConfigurationError, match="is not replaced"):
        registered(found, file, late=True)


def test_an_initial_policy_alone_is_noted(tmp_path: Path) -> None:
    found = plan(tmp_path)
    run = begin_a_run(found, initial=True)
    held = registered(found, tmp_path / "mine.registration.json")
    assert (held["late"], held["initial_policies_there"]) == ([], [run])


def test_what_is_no_registration(tmp_path: Path) -> None:
    file = tmp_path / "mine.registration.json"
    with pytest.raises(StoreError, match="there is no registration"):
        read_registration(file)
    for text, why in (
        ("{", "torn"),
        ("{}", "is no registration"),
        ('{"registration": 1}', "suite"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(StoreError, match=why):
            read_registration(file)


def test_a_deviation_needs_several_initial_policies(tmp_path: Path) -> None:
    found = plan(tmp_path, ("initial_policies: [41, 42, 43]\n", ""))
    with pytest.raises(ConfigurationError, match="--deviation"):
        registered(found, tmp_path / "mine.registration.json", deviation=0.01)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("most: 6", "most: 2", "no look|greater than"),
        ("look_every: 1", "look_every: 2", "no look at most = 6"),
        (", primary: true", "", "stop needs a trade"),
    ],
)
def test_a_stopping_rule_that_cannot_be(tmp_path: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        plan(tmp_path, (old, new))
