"""Check a suite's page against its registration, and its numbers against runs or published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typing_extensions import TypedDict

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.json_value import json_value
from sage_cli.reports.document import Document
from sage_cli.store.json_files import json_text, read_object
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import PlannedSuite, planned_of
from sage_cli.trials.suites.registered.compared import Tolerance, unequal
from sage_cli.trials.suites.registered.decided import decides
from sage_cli.trials.suites.registered.departures import Departure, departure, departures
from sage_cli.trials.suites.registered.found import RUNS, found_results
from sage_cli.trials.suites.registered.measurements_file import ENDING
from sage_cli.trials.suites.registered.registration import (
    Decides,
    Registration,
    read_registration,
)
from sage_cli.trials.suites.registered.standing import file_changes
from sage_cli.trials.suites.report import chapters

EXACT = Tolerance(1e-9, 1e-9)
ROUNDED = Tolerance(2e-5, 1e-3)
"""Of numbers that published chances give, which are rounded."""
UNCHECKED = ("registered", "tasks", "runs")
"""Sections that hold no measurements."""
NUMBER = "number"


class Verified(TypedDict):
    """The differences of a page, what was checked and what could not be.

    `source` is where the numbers were computed from: runs, published, or none.
    """

    page: str
    registration: str
    source: str
    checked: list[str]
    unchecked: list[str]
    numbers: int
    differences: list[Departure]


@dataclass
class _Numbers:
    source: str
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    count: int = 0
    differences: list[Departure] = field(default_factory=list)


def verify(page_file: Path, registration_file: Path | None, root: Path | None) -> Verified:
    """Return all in which a page differs from its registration and from its measurements.

    `root` is the folder of runs; None: the configuration's. Raises ConfigurationError for a page
    that has no registration.
    """
    try:
        page = read_object(page_file, "take the page as it was written")
        said = _registered(page, page_file)
        file = registration_file or page_file.parent / said["file"]
        registration = read_registration(file)
        differences = _against_registration(said, registration)
        plan = _plan_of(said["decides"], root)
        differences += [
            {**one, "name": f"{one['name']} (rebuilt from the page's declaration)"}
            for one in departures(said["decides"], decides(plan))
        ]
        numbers = _numbers(page, page_file, plan)
    except FileNotFoundError:
        raise StoreError(
            f"there is no page {page_file}", "give the NAME.json of a suite's report"
        ) from None
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise StoreError(
            f"{page_file} is no page as a suite's report writes it: {type(error).__name__} {error}",
            "take the page as it was written",
        ) from None
    return {
        "page": str(page_file),
        "registration": str(file),
        "source": numbers.source,
        "checked": numbers.checked,
        "unchecked": numbers.unchecked,
        "numbers": numbers.count,
        "differences": differences + numbers.differences,
    }


def _registered(page: dict[str, Any], file: Path) -> dict[str, Any]:
    for chapter in page.get("chapters", ()):
        if (found := chapter["sections"].get("registered")) is not None:
            return dict(found)
    raise ConfigurationError(
        f"{file} says nothing of a registration",
        "write it with sage suite report, with registration: FILE in the suite or --registration",
    )


def _against_registration(said: dict[str, Any], held: Registration) -> list[Departure]:
    """Return changes of the registration, departures from it, and those that the page hides."""
    of = held["hash"]
    found = [departure("registration", why, of, "changed") for why in file_changes(held)]
    if said["hash"] != of:
        name = "the page was written with another registration"
        found.append(departure("registration", name, of, said["hash"]))
    departing = departures(held["decides"], said["decides"])
    found += departing
    hidden = [one for one in departing if one not in said["departures"]]
    found += [{**one, "name": f"{one['name']}: not named on the page"} for one in hidden]
    if held["late"] and not any(one["kind"] == "late" for one in said["departures"]):
        found.append(departure("late", "not named on the page", held["late"], None))
    return found


def _plan_of(said: Decides, root: Path | None) -> PlannedSuite:
    typed = said["typed"]
    wanted = typed["initial_policies"]
    overrides = Overrides(
        tuple(typed["presets"]), tuple(typed["sets"]), typed["seeds"], {"run": {"root": root}},
        tuple(typed["only"]), tuple(wanted) if isinstance(wanted, list) else wanted,
    )  # fmt: skip
    suites = [Suite.model_validate(one["declaration"]) for one in said["suites"]]
    return planned_of(suites, overrides)


def _numbers(page: dict[str, Any], page_file: Path, plan: PlannedSuite) -> _Numbers:
    """Compute the page's sections again, from the runs or else from published measurements."""
    published = page_file.with_name(f"{page_file.stem}{ENDING}")
    there = published if published.is_file() else None
    found, source = found_results(plan, {}, there, as_planned=False)
    numbers = _Numbers(source)
    if not source:
        numbers.source = "none"
        why = f"no number could be checked: there are no runs here, and no {published.name}"
        numbers.differences = [departure(NUMBER, why, None, None)]
        return numbers
    exact = any(result.read for result in found)
    tolerance = ROUNDED if exact and numbers.source != RUNS else EXACT
    again = {one.name: one.sections for one in chapters(plan, found, {})}
    for chapter in page["chapters"]:
        own = {one.name: one.data for one in again.get(chapter["name"], ())}
        for name, data in chapter["sections"].items():
            where = f"{chapter['name']}: {name}"
            if name in UNCHECKED:
                continue
            if name not in own:
                numbers.unchecked.append(where)
                continue
            given = {key: value for key, value in data.items() if key not in ("title", "notes")}
            count, differing = unequal(given, json_value(json_text(own[name])), tolerance)
            numbers.checked.append(where)
            numbers.count += count
            numbers.differences += [
                departure(NUMBER, f"{where}: {path}", was, now) for path, was, now in differing
            ]
    numbers.differences += _left_out(page, again)
    return numbers


def _left_out(page: dict[str, Any], again: Mapping[str, Sequence[Document]]) -> list[Departure]:
    there = {chapter["name"]: chapter["sections"] for chapter in page["chapters"]}
    return [
        departure(NUMBER, f"{chapter}: {section.name}: not on the page", None, "computed")
        for chapter, sections in again.items()
        for section in sections
        if section.name not in UNCHECKED and section.name not in there.get(chapter, {})
    ]
