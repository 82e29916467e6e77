"""The report of a suite: its trials' results, the analyses and the sweeps of its parts."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.analysis.answer import Analysing, answer
from sage_cli.analysis.selection import find_analysis, options_of
from sage_cli.errors import SageError, StoreError
from sage_cli.evaluation.probe import stored_probes
from sage_cli.progress import Progress
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Row, Table, columns
from sage_cli.trials.failures import stored_failures
from sage_cli.trials.suites.chapters import SuiteReport, chapters, write_report
from sage_cli.trials.suites.declaration import INITIAL, WantedAnalysis
from sage_cli.trials.suites.plan import Overrides, Part, PlannedSuite
from sage_cli.trials.suites.results import results
from sage_cli.trials.suites.sweeps import Search, SweepTask, prepare_tuned, sweeps_of
from sage_cli.trials.sweep.folder import SweepFolder, sweep_folder
from sage_cli.trials.sweep.report import document_of
from sage_cli.trials.sweep.run import WritePage
from sage_cli.trials.sweep.space import describe_point


def report_suite(
    name: str, overrides: Overrides, progress: Progress, write_page: WritePage
) -> SuiteReport:
    """Report what is stored of a suite, and why the rest is missing; nothing is run."""
    with progress.doing(f"planning {name}"):
        plan, searches = prepare_tuned(name, overrides, required=True)
    require_analyses(plan)
    return report_of(plan, progress, write_page, searches)


def require_analyses(plan: PlannedSuite) -> None:
    """Raise ConfigurationError for an unknown analysis, or an option that one does not take."""
    for part in plan.parts:
        for analysis in part.suite.analyses:
            options_of(find_analysis(analysis.name), plan.config, analysis.options)


def report_of(
    plan: PlannedSuite,
    progress: Progress,
    write_page: WritePage,
    searches: Sequence[Search] = (),
) -> SuiteReport:
    """Write the report of a plan, as far as it is done, and its page."""
    with progress.doing(f"counting what is stored of {plan.suite.name}"):
        failures = stored_failures(plan.failures)
        part_results = [results(part, plan.benchmarks, failures) for part in plan.parts]
    analyses = {
        part.suite.name: [_analysed(analysis, part, progress) for analysis in part.suite.analyses]
        for part in plan.parts
    }
    initial = [replicate.initial for part in plan.parts for replicate in part.replicates]
    if probes := stored_probes(plan.config.run.root, initial):
        analyses[plan.parts[0].suite.name].append(probes)
    if searches:
        analyses[plan.suite.name].append(_tuned(searches))
    for task in sweeps_of(plan):
        analyses[task.wanted_by[0]].append(_swept(task))
    with progress.doing("computing curves and differences"):
        all_chapters = chapters(plan, part_results, analyses)
    with progress.doing("drawing and writing the report"):
        written = write_report(plan, part_results, all_chapters)
    with progress.doing("writing the page"):
        write_page(plan.config.run.root, written.page, "suite", plan.folder.name)
    return written


def _analysed(analysis: WantedAnalysis, part: Part, progress: Progress) -> Document:
    """The answer of `sage analyze` about the policies that exist, or why there is none."""
    wanted = [
        replicate
        for trial in part.trials
        if not analysis.methods or trial.label in analysis.methods
        for replicate in trial.replicates
    ]
    names = [replicate.policy.word for replicate in wanted if replicate.policy.exists]
    title = f"Analysis: {analysis.name}"
    if not names:
        return Document(analysis.name, title, {}, notes=("none of its runs exists yet",))
    # the first of those with the same policy; the initial one also where it is not named
    labels = {replicate.policy.word: replicate.title for replicate in reversed(part.replicates)}
    try:
        asked = Analysing.of(analysis.name, wanted[0].config, names, analysis.options, labels)
        return answer(asked, progress)[0]
    except SageError as error:
        return Document(analysis.name, title, {}, notes=(f"not computed: {error.cause}",))


def _tuned(searches: Sequence[Search]) -> Document:
    """Return the initial policy and what was tried for each method, the chosen point first."""
    rows, sweep = [], searches[0].config.sweep
    result = SweepFolder(sweep_folder(searches[0].config.run.root, searches[0].name)).result
    tried = [(INITIAL, "", result.base)] if result and result.base else []
    tried += [
        (search.trial.label + ("" if rank else ", chosen"), search.name, trial)
        for search in searches
        for rank, trial in enumerate(search.tried)
    ]
    for label, section, trial in tried:
        assert trial.values is not None  # it is measured
        interval = (trial.intervals or {}).get(sweep.objective[0])
        value = Estimate(trial.values[sweep.objective[0]], interval=interval)
        rows.append(Row((label, describe_point(trial.settings), value), section))
    heads, budget = columns(f"method, settings, {sweep.objective[0]}"), searches[0].budget
    table = Table(f"Tuned on {sweep.benchmark}", heads, tuple(rows))
    note = (
        f"each arm was tuned with {budget}, on separate seeds; the best of several values is "
        "too high"
    )
    data = {"budget": budget, "trials": to_records(table)}
    return Document("tuning", "Tuning", data, tables=(table,), notes=(note,))


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
