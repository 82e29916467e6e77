"""`sage suite report|register|publish`: the results of a suite, and what is written down of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copyfile

from sage_cli.analysis.registry import find_analysis
from sage_cli.analysis.selection import Request, options_of
from sage_cli.commands.measure.analyze import Analysing, answer
from sage_cli.commands.trials.suite import FAILURES, SweepTask, sweeps_of
from sage_cli.errors import ConfigurationError, SageError, StoreError
from sage_cli.progress import Progress
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.document import document_of
from sage_cli.trials.failures import stored_failures
from sage_cli.trials.search.folder import SweepFolder
from sage_cli.trials.suites.declaration import Analysis
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import Part, PlannedSuite, planned
from sage_cli.trials.suites.read import registration_file
from sage_cli.trials.suites.registered.found import found_results
from sage_cli.trials.suites.registered.measurements_file import ENDING, write_measurements
from sage_cli.trials.suites.registered.registration import Registration
from sage_cli.trials.suites.registered.standing import register, standing
from sage_cli.trials.suites.report import SuiteReport, chapters, write_report
from sage_cli.view.export.selection import write_own_page


def report_suite(
    name: str,
    overrides: Overrides,
    progress: Progress,
    registration: Path | None = None,
    published: Path | None = None,
) -> SuiteReport:
    """Report what is stored of a suite, and why the rest is missing; nothing is run.

    `registration` is used in the place of the one that the suite names or has beside it, and
    measurements that somebody `published` in the place of those that are not stored here.
    """
    with progress.doing(f"planning {name}"):
        plan = planned(name, overrides)
    require_analyses(plan)
    return report_of(plan, progress, registration or present_registration(name), published)


def present_registration(name: str) -> Path | None:
    """Return the registration that a suite names, or that is there beside it; None without one."""
    file, is_named = registration_file(name)
    return file if is_named or file.is_file() else None


def require_analyses(plan: PlannedSuite) -> None:
    """Raise ConfigurationError for an unknown analysis, or an option that one does not take."""
    for part in plan.parts:
        for one in part.suite.analyses:
            options_of(find_analysis(one.name), plan.config, Request(**dict(one.options)))


def report_of(
    plan: PlannedSuite,
    progress: Progress,
    registration: Path | None = None,
    published: Path | None = None,
) -> SuiteReport:
    """Write the report of a plan, as far as it is done, and its page."""
    stands = None if registration is None else standing(plan, registration)
    with progress.doing(f"counting what is stored of {plan.suite.name}"):
        failures = stored_failures(plan.folder / FAILURES)
        found, source = found_results(plan, failures, published)
    analyses = {
        part.suite.name: [_analysed(one, part, progress) for one in part.suite.analyses]
        for part in plan.parts
    }
    for task in sweeps_of(plan):
        analyses[task.wanted_by[0]].append(_swept(task))
    with progress.doing("computing curves and differences"):
        every = chapters(plan, found, analyses, stands)
        if published is not None:
            every = [replace(one, about=f"{one.about} Results: {source}.") for one in every]
    with progress.doing("drawing and writing the report"):
        written = write_report(plan, found, every, stands)
    write_own_page(plan.config.run.root, "suite", plan.folder.name, written.page, progress)
    return written


def _analysed(analysis: Analysis, part: Part, progress: Progress) -> Document:
    """The answer of `sage analyze` about the policies that exist, or why there is none."""
    wanted = [
        one
        for trial in part.trials
        if not analysis.methods or trial.label in analysis.methods
        for one in trial.replicates
    ]
    names = [one.policy.word for one in wanted if one.policy.exists]
    title = f"Analysis: {analysis.name}"
    if not names:
        return Document(analysis.name, title, {}, notes=("none of its runs is there yet",))
    # the first of those with the same policy; the initial one also where it is not named
    labels = {one.policy.word: one.title for one in reversed(part.replicates)}
    request = Request(**dict(analysis.options))
    try:
        asked = Analysing.of(analysis.name, wanted[0].config, names, request, labels)
        return answer(asked, progress)[0]
    except SageError as error:
        return Document(analysis.name, title, {}, notes=(f"refused: {error.cause}",))


def _swept(task: SweepTask) -> Document:
    """The last report of a sweep's driver, or why there is none."""
    try:
        result = SweepFolder(task.folder).result
    except StoreError as error:
        why = error.cause
    else:
        if result is not None:
            return document_of(result, Provenance())
        why = "the sweep has not ended yet"
    return Document("sweep", "Sweep", {}, notes=(why,))


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
