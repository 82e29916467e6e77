"""Register a planned suite before its first run."""

from __future__ import annotations

from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.store.runs.recording import now
from sage_cli.store.surroundings import surroundings
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered.decided import decides
from sage_cli.trials.suites.registered.registration import (
    LAYOUT,
    RegisteredPower,
    Registration,
    sealed,
    write_registration,
)

SHOWN = 5


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
