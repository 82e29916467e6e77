"""`sage suite`: a declared study planned, carried out, and laid beside what was published."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from sage_cli.analysis.registry import find_analysis
from sage_cli.analysis.selection import Request, options_of
from sage_cli.errors import SageError, TrainingError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.executors.build import build_executor
from sage_cli.executors.run_works import run_works
from sage_cli.json_value import json_value
from sage_cli.progress import Progress
from sage_cli.reports.document import Document
from sage_cli.reports.page import Page
from sage_cli.store.atomic import write_json
from sage_cli.store.lock import writer
from sage_cli.store.mirrors.follower import require_mirrors
from sage_cli.suite.arms import Overrides
from sage_cli.suite.declaration import Analysis
from sage_cli.suite.plan import DONE, Part, Plan, planned
from sage_cli.suite.report import chapters, write_report
from sage_cli.suite.results import results
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
    """Raise ConfigurationError for an unknown analysis, or options that it does not use."""
    for part in plan.parts:
        for one in part.suite.analyses:
            request = Request(**dict(one.options))
            options_of(find_analysis(one.name), plan.config.evaluation, request)


def carry_out(plan: Plan, progress: Progress) -> None:
    """Have the tasks done that aren't, and keep why some couldn't be.

    Raises TrainingError where nothing is measured or trained in the end.
    """
    config, tasks = plan.config, plan.folder / "tasks"
    require_mirrors(config.tracking)
    executor = build_executor(config.executor, folder=tasks, processes=config.rl.processes)
    with writer(plan.folder):
        failures = run_works(plan.works, executor, tasks, RETRIES, progress)
        kept = {name: asdict(why) for name, why in failures.items()}
        write_json(plan.folder / FAILURES, kept)
    if failures and not any(plan.state(work) == DONE for work in plan.works if work.needs):
        reasons = dict.fromkeys(f"{why.kind}: {why.reason}" for why in failures.values())
        raise TrainingError(
            "\n".join(["no task of any method was finished", *reasons]),
            f"read the logs in {tasks}; the same command tries again",
        )


def report_of(plan: Plan, progress: Progress) -> Page:
    """The report of a plan, as far as it is done."""
    failures = _failures(plan.folder / FAILURES)
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


def _failures(path: Path) -> dict[str, str]:
    """Why tasks were given up, by name; a torn file is as good as none: it is told again."""
    try:
        held = json_value(path.read_bytes())
        return {name: f"{why['kind']}: {why['reason']}" for name, why in held.items()}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _analysed(analysis: Analysis, part: Part, progress: Progress) -> Document:
    """What `sage analyze` finds of the policies that are there; else why it finds nothing."""
    wanted = [arm for arm in part.arms if not analysis.methods or arm.label in analysis.methods]
    names = [arm.policy.word for arm in wanted if arm.policy.exists]
    title = f"Analysis: {analysis.name}"
    if not names:
        return Document(analysis.name, title, {}, notes=("none of its runs is there yet",))
    # the first of those that are the same policy; the base is called so even where it isn't named
    labels = {arm.policy.word: arm.title for arm in reversed(part.arms)}
    request = Request(**dict(analysis.options))
    try:
        evaluation = Evaluation.of_config(wanted[0].config)
        return answer(evaluation, analysis.name, names, request, progress, labels)[0]
    except SageError as error:
        return Document(analysis.name, title, {}, notes=(f"refused: {error.cause}",))
