"""Register a planned suite before its first run, and how it stands to that later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.json_value import json_value
from sage_cli.store.atomic import write_json
from sage_cli.store.runs.recording import now
from sage_cli.store.surroundings import surroundings
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered.decided import decides
from sage_cli.trials.suites.registered.departures import Departure, departure, departures
from sage_cli.trials.suites.registered.registration import (
    LAYOUT,
    Decides,
    RegisteredPower,
    Registration,
    is_sealed,
    read_registration,
    sealed,
    write_registration,
)

SHOWN = 5
FOLDER = "registrations"
SHORT = 16
"""Digits of a hash that people compare."""


def begun_runs(plan: PlannedSuite, *, initial: bool = False) -> list[str]:
    """Return the ids of trainings of a suite that have begun, or of its initial policies.

    Initial policies alone decide nothing that a suite compares.
    """
    return list(
        dict.fromkeys(
            one.policy.run.id
            for part in plan.parts
            for one in part.replicates
            if one.is_initial == initial and one.policy.run is not None and one.policy.run.begun
        )
    )


def register(
    plan: PlannedSuite, file: Path, *, late: bool, note: str | None, deviation: float | None
) -> Registration:
    """Write the registration of a suite to `file`, and return it.

    Raises ConfigurationError if runs of it have begun and it isn't `late`, and if a late one would
    replace another.
    """
    begun = begun_runs(plan)
    if begun and not late:
        more = f" and {len(begun) - SHOWN} more" if len(begun) > SHOWN else ""
        raise ConfigurationError(
            f"{plan.suite.name} has runs already: {', '.join(begun[:SHOWN])}{more}",
            "a study is registered before its first run; --late registers it all the same, and "
            "every report says so",
        )
    if begun and file.exists():
        raise ConfigurationError(
            f"{file} was registered before these runs, and is not replaced",
            "give another file with --out",
        )
    around = surroundings()
    registration = sealed(
        {
            "registration": LAYOUT,
            "suite": plan.suite.name,
            "title": plan.suite.title,
            "registered": now(),
            "late": begun,
            "initial_policies_there": begun_runs(plan, initial=True),
            "versions": around["versions"],
            "commit": around["commit"],
            "power": planned_power(plan, note, deviation),
            "decides": decides(plan),
        }
    )
    write_registration(file, registration)
    return registration


def planned_power(plan: PlannedSuite, note: str | None, deviation: float | None) -> RegisteredPower:
    """Return the power over initial policies, if a deviation between them is known.

    Raises ConfigurationError for a deviation without several initial policies.
    """
    starts = {one.start for part in plan.parts for one in part.replicates} - {None}
    if deviation is not None and len(starts) < 2:
        raise ConfigurationError(
            f"--deviation is between initial policies, and {plan.suite.name} has one",
            "name several with initial_policies, or write the power with --power-note",
        )
    detectable = None
    if deviation is not None:  # imports numpy, which a dry run does not need
        from sage_cli.metrics.design.precision import smallest_mean

        detectable = smallest_mean(deviation, len(starts))
    return {
        "note": note,
        "deviation": deviation,
        "initial_policies": len(starts) or None,
        "detectable": detectable,
    }


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
