"""How a study stands to its registration: what departs, and whether the file was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.json_value import json_value
from sage_cli.store.atomic import write_json
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered.decided import decides
from sage_cli.trials.suites.registered.departures import Departure, departure, departures
from sage_cli.trials.suites.registered.register import begun_runs
from sage_cli.trials.suites.registered.registration import (
    Decides,
    Registration,
    is_sealed,
    read_registration,
)

FOLDER = "registrations"
SHORT = 16
"""Digits of a hash that people compare."""


@dataclass(frozen=True)
class Standing:
    """A registration by file name, what the study decides, departures, and changes of the file."""

    file: str
    registration: Registration
    decides: Decides
    departures: Sequence[Departure]
    changed: Sequence[str] = ()

    @property
    def marks(self) -> list[Departure]:
        """Return every departure, changes of the file and lateness first."""
        first = [departure("registration", why, self.hash, "changed") for why in self.changed]
        if late := self.registration["late"]:
            name = f"registered when {len(late)} of its runs had begun"
            first.append(departure("late", name, "before the first run", late))
        return [*first, *self.departures]

    @property
    def hash(self) -> str:
        """Return the beginning of the registration's hash."""
        return self.registration["hash"][:SHORT]


def standing(plan: PlannedSuite, file: Path) -> Standing:
    """Return how a planned suite stands to the registration in `file`.

    Raises StoreError if there is none, or if it isn't one.
    """
    registration, now = read_registration(file), decides(plan)
    changed = file_changes(registration)
    first = _first_hash(plan, file)
    if first is not None and first != registration["hash"]:
        changed.append(f"{file.name} was {first[:SHORT]} when the first run began")
    found = departures(registration["decides"], now)
    return Standing(file.name, registration, now, found, changed)


def file_changes(registration: Registration) -> list[str]:
    """Return that the registration's content is not that of its hash, if it isn't."""
    if is_sealed(registration):
        return []
    return ["the registration was changed: its hash is not that of its content"]


def note_registration(plan: PlannedSuite, file: Path) -> None:
    """Note the registration's hash in the folder of runs, unless trainings have begun.

    Raises StoreError if there is none, or if it isn't one.
    """
    registration, noted = read_registration(file), _noted(plan, file)
    if not (noted.is_file() and begun_runs(plan)):
        write_json(noted, {"hash": registration["hash"]})


def _first_hash(plan: PlannedSuite, file: Path) -> str | None:
    """Return the hash that the registration had when its suite was first run, if it is known."""
    try:
        held = json_value(_noted(plan, file).read_bytes())
    except (OSError, ValueError):
        return None
    return str(held["hash"]) if isinstance(held, dict) and "hash" in held else None


def _noted(plan: PlannedSuite, file: Path) -> Path:
    return plan.config.run.root / "suites" / FOLDER / f"{plan.suite.name}-{file.stem}.json"
