"""Which runs an export holds: those that a run, a sweep or a suite refers to; and their page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlencode

from sage_cli.errors import SageError
from sage_cli.progress import Progress
from sage_cli.store.atomic import write_text
from sage_cli.store.runs.run import Run, Runs
from sage_cli.trials.search.folder import SweepFolder, Sweeps
from sage_cli.view.export.held import Selection, contents
from sage_cli.view.export.page_file import page_of
from sage_cli.view.topics.run import GuideView
from sage_cli.view.topics.suites import StoredSuites, policies_of_suite

MOST_RUNS = 200


def selection_of(root: Path, kind: str | None, name: str) -> Selection:
    """Return the selection of a run with its ancestors, a sweep, a suite, or of everything."""
    if kind == "run":
        return Selection(_with_parents(root, [name]), begin=_begin(kind, name))
    if kind == "sweep":
        runs = _with_parents(root, _runs_of(SweepFolder(Sweeps(root).root / name)))
        return Selection(runs, sweeps=[name], begin=_begin(kind, name))
    if kind == "suite":
        runs = _with_parents(root, policies_of_suite(StoredSuites(root).find(name)))
        return Selection(runs, suites=[name], begin=_begin(kind, name))
    every = [run.id for run in Runs(root).all()]
    return Selection(
        every[-MOST_RUNS:],
        [one.name for one in Sweeps(root).all()],
        [one.name for one in StoredSuites(root).all()],
    )


def with_guide(root: Path, policy: str, view: GuideView) -> Selection:
    """Return a selection that begins with a token report, of a run or of another model."""
    values = {"run": policy}
    return Selection(
        _with_parents(root, [policy.partition("@")[0]]),
        begin=f"#/guide?{urlencode(values)}",
        answers={f"guide?{urlencode(values)}": view},
    )


def _begin(kind: str, name: str) -> str:
    return f"#/{kind}?{kind}={quote(name)}"


def _with_parents(root: Path, names: Iterable[str]) -> list[str]:
    """Return the runs that are there, each after the runs that it grew from."""
    found: list[str] = []

    def add(name: str) -> None:
        run = Run(root / name)
        if name in found or not name or not run.begun:
            return
        add(str(run.known.get("parent") or ""))
        found.append(name)

    for name in dict.fromkeys(names):
        add(name)
    return found[:MOST_RUNS]


def _runs_of(sweep: SweepFolder) -> list[str]:
    try:
        result = sweep.result
    except SageError:
        return []
    if result is None:
        return []
    base = result.base.runs if result.base else ()
    return [*base, *(run for trial in result.trials for run in trial.runs)]


LIMIT_MB = 2
"""Megabytes of stored results in such a page; its scripts are another."""


def write_own_page(root: Path, kind: str, name: str, file: Path, progress: Progress) -> None:
    """Write the page that begins with a suite, a sweep or a run's token report."""
    with progress.doing("writing the page"):
        write_page(root, selection_of(root, kind, name), file)


def write_page(root: Path, selection: Selection, file: Path, limit_mb: int = LIMIT_MB) -> None:
    """Write a selection of what is stored below `root` as one file."""
    write_text(file, page_of(contents(root, selection, limit_mb * 2**20)))
