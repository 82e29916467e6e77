"""`sage suite`: a declared study planned, carried out, and laid beside what was published."""

from __future__ import annotations

from sage_cli.analysis.options import Options, asked_of
from sage_cli.analysis.registry import find_analysis
from sage_cli.errors import SageError, TrainingError
from sage_cli.executors.build import build_executor
from sage_cli.progress import Progress
from sage_cli.reports.document import Document
from sage_cli.reports.page import Page
from sage_cli.store.lock import writer
from sage_cli.store.mirrors import require_mirrors
from sage_cli.suite.arms import Overrides
from sage_cli.suite.declaration import Analysis
from sage_cli.suite.plan import DONE, Part, Plan, planned
from sage_cli.suite.report import chapters, write_report
from sage_cli.suite.results import results
from sage_cli.trials.failures import stored_failures, write_failures
from sage_cli.trials.queue import run_tasks
from sage_cli.workflows.analyze import answer
from sage_cli.workflows.suite_plan import sweeps_of

RETRIES = 1
FAILURES = "failures.json"


def run_suite(name: str, overrides: Overrides, progress: Progress) -> Page:
    """Have everything done that isn't, and report.

    A task that fails leaves the others alone. Raises TrainingError where nothing could be done.
    """
    plan = _planned(name, overrides, progress)
    _require_analyses(plan)
    carry_out(plan, progress)
    for one in sweeps_of(plan):
        one.run(progress)
    return report_of(plan, progress)


def report_suite(name: str, overrides: Overrides, progress: Progress) -> Page:
    """Report what the store holds of a suite, and why the rest isn't there; nothing is run."""
    plan = _planned(name, overrides, progress)
    _require_analyses(plan)
    return report_of(plan, progress)


def _require_analyses(plan: Plan) -> None:
    """Refuse an analysis that there is none of, or one that is asked what it doesn't look at."""
    for part in plan.parts:
        for one in part.suite.analyses:
            options = Options(**dict(one.options))
            asked_of(find_analysis(one.name), plan.config.evaluation, options)


def carry_out(plan: Plan, progress: Progress) -> None:
    """Have the tasks done that aren't, and keep why some couldn't be.

    Raises TrainingError where nothing is measured or trained in the end.
    """
    config, tasks = plan.config, plan.folder / "tasks"
    require_mirrors(config.tracking)
    executor = build_executor(config.executor, folder=tasks, processes=config.rl.processes)
    with writer(plan.folder):
        failures = run_tasks(plan.tasks, executor, tasks, RETRIES, progress)
        write_failures(plan.folder / FAILURES, failures)
    if failures and not any(plan.state(task) == DONE for task in plan.tasks if task.needs):
        reasons = dict.fromkeys(map(str, failures.values()))
        raise TrainingError(
            "\n".join(["no task of any method was finished", *reasons]),
            f"read the logs in {tasks}; the same command tries again",
        )


def report_of(plan: Plan, progress: Progress) -> Page:
    """The report of a plan, as far as it is done."""
    failures = stored_failures(plan.folder / FAILURES)
    found = []
    for part in plan.parts:
        with progress.doing(f"counting what is stored of {part.suite.name}"):
            found.append(results(part, plan, failures))
    analyses = {
        part.suite.name: [_analysed(one, part, progress) for one in part.suite.analyses]
        for part in plan.parts
    }
    for swept in sweeps_of(plan):
        analyses[swept.suite.name].append(swept.document())
    with progress.doing("computing curves and differences"):
        every = chapters(plan, found, analyses)
    with progress.doing("drawing and writing the report"):
        return write_report(plan, found, every)


def _planned(name: str, overrides: Overrides, progress: Progress) -> Plan:
    with progress.doing(f"planning {name}"):
        return planned(name, overrides)


def _analysed(analysis: Analysis, part: Part, progress: Progress) -> Document:
    """What `sage analyze` finds of the policies that are there; else why it finds nothing."""
    wanted = [arm for arm in part.arms if not analysis.methods or arm.label in analysis.methods]
    names = [arm.policy.word for arm in wanted if arm.policy.exists]
    title = f"Analysis: {analysis.name}"
    if not names:
        return Document(analysis.name, title, {}, notes=("none of its runs is there yet",))
    # the first of those that are the same policy; the base is called so even where it isn't named
    labels = {arm.policy.word: arm.title for arm in reversed(part.arms)}
    options = Options(**dict(analysis.options))
    try:
        return answer(wanted[0].config, analysis.name, names, options, progress, labels)[0]
    except SageError as error:
        return Document(analysis.name, title, {}, notes=(f"refused: {error.cause}",))
