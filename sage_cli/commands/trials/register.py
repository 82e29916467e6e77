"""`sage suite register`: all that decides a suite, written down before its first run."""

from __future__ import annotations

from pathlib import Path

from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import planned
from sage_cli.trials.suites.read import registration_file
from sage_cli.trials.suites.registered.register import register
from sage_cli.trials.suites.registered.registration import Registration


def register_suite(
    name: str,
    overrides: Overrides,
    out: Path | None,
    late: bool,
    note: str | None,
    deviation: float | None,
) -> tuple[Path, Registration]:
    """Register a suite, by default beside its file; return the file and the registration."""
    file = out or registration_file(name)[0]
    plan = planned(name, overrides)
    return file, register(plan, file, late=late, note=note, deviation=deviation)
