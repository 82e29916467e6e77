"""`sage suite register|publish`: a suite written down before its runs, and its measurements."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

from sage_cli.commands.trials.suite_report import present_registration, report_of
from sage_cli.errors import ConfigurationError
from sage_cli.progress import Progress
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import planned
from sage_cli.trials.suites.read import registration_file
from sage_cli.trials.suites.registered.found import found_results
from sage_cli.trials.suites.registered.measurements_file import ENDING, write_measurements
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


def publish_suite(
    name: str,
    overrides: Overrides,
    out: Path,
    progress: Progress,
    registration: Path | None,
    published: Path | None = None,
) -> list[Path]:
    """Write a suite's page as JSON, its counts and chances, and its registration into `out`.

    With these three files `sage suite verify` checks the page on a machine without the runs.
    `published` is such a file of counts and chances, used for runs that are not here.
    Raises ConfigurationError if nothing is measured.
    """
    with progress.doing(f"planning {name}"):
        plan = planned(name, overrides)
    registration = registration or present_registration(name)
    with progress.doing("reading counts and chances"):
        found, source = found_results(plan, {}, published)
    if not source:
        raise ConfigurationError(f"nothing of {name} is measured", f"run sage suite run {name}")
    page = report_of(plan, progress, registration, published)
    document = page.report.folder / f"{plan.suite.name}.json"
    out.mkdir(parents=True, exist_ok=True)
    files = [out / document.name, out / f"{plan.suite.name}{ENDING}"]
    copyfile(document, files[0])
    with progress.doing("writing counts and chances"):
        write_measurements(files[1], found)
    if registration is not None:
        files.append(out / registration.name)
        if files[2].resolve() != registration.resolve():
            copyfile(registration, files[2])
    return files
