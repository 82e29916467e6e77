"""`sage sweeps`: what is known of stored sweeps, and what may be done to them."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from sage_cli.config.command_line import options_for
from sage_cli.config.load import load
from sage_cli.config.presets import read_layer
from sage_cli.config.stored import service_words
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.reports.sweeps.data import SweepCell, SweepResult
from sage_cli.store.json_object import read_object
from sage_cli.sweep.folder import AGAIN, TASKS, mark_of
from sage_cli.sweep.shared import point_config, shared_config
from sage_cli.sweep.stored import StoredSweep


@dataclass(frozen=True)
class Best:
    """The best cell by one objective, by its number in the report.

    `words` are the command that trains its first run, or finds it; `alike` are the numbers of the
    cells that can't be told apart from it, None where the noise isn't known.
    """

    objective: str
    number: int
    cell: SweepCell
    value: float
    interval: tuple[float, float] | None
    words: str
    alike: tuple[int, ...] | None


def best_cells(sweep: StoredSweep, objective: str | None = None) -> list[Best]:
    """The best cell by each objective, or by the one that is named.

    Raises StoreError where no cell is done, ConfigurationError for another objective.
    """
    result = reported(sweep)
    if objective is not None and objective not in result.objectives:
        close = get_close_matches(objective, result.objectives, n=1)
        there = ", ".join(result.objectives)
        raise ConfigurationError(
            f"{sweep.name} has no objective '{objective}'; it has {there}",
            f"did you mean {close[0]}?" if close else "name one of those",
        )
    wanted = [objective] if objective is not None else list(result.objectives)
    return [_best(result, one, sweep) for one in wanted]


def reported(sweep: StoredSweep) -> SweepResult:
    """The sweep's report; raises StoreError while there is none."""
    if (result := sweep.result) is None:
        how = "it is written when the driver ends" if sweep.driven_by else _go_on(sweep)
        raise StoreError(f"{sweep.name} has no report yet", how)
    return result


def importances(sweep: StoredSweep) -> Mapping[str, Mapping[str, float]]:
    """By objective, what share of the matter each parameter is."""
    result = reported(sweep)
    if not result.importances:
        done = len(result.done)
        raise StoreError(
            f"{sweep.name} can't tell yet which parameters matter: {done} of its cells are done",
            "it takes four done cells or more, of different values",
        )
    return result.importances


def cancel(sweep: StoredSweep) -> str:
    """Ask the driver to stop; what was done, or what there is to do by hand, in words.

    Raises StoreError where there is nothing to cancel.
    """
    if sweep.driven_by:
        sweep.cancel()
        return (
            f"{sweep.driven_by} was asked to stop driving {sweep.name}: what its tasks have saved "
            f"stays, and {_go_on(sweep)}"
        )
    if not sweep.jobs:
        raise StoreError(f"nobody drives {sweep.name}, and no jobs of it are left", _go_on(sweep))
    jobs = " ".join(sweep.jobs)
    return (
        f"nobody drives {sweep.name}, and {len(sweep.jobs)} jobs of it are left with the cluster: "
        f"`scancel {jobs}` ends those that still run; {_go_on(sweep)}"
    )


def remove(sweep: StoredSweep) -> list[str]:
    """Delete the sweep's folder and its study; runs stay. Raises StoreError while it is driven.

    A study in a database that another folder drives, or drove last, stays: sentences that say so.
    """
    if sweep.driven_by:
        raise StoreError(
            f"{sweep.name} is driven by {sweep.driven_by}",
            f"`sage sweeps cancel {sweep.name}` stops it; remove it then",
        )
    if sweep.jobs:
        raise StoreError(
            f"{len(sweep.jobs)} jobs of {sweep.name} are left with the cluster",
            f"end those that run with `scancel {' '.join(sweep.jobs)}`, delete "
            f"{sweep.folder / 'cells' / 'jobs.json'}, and remove the sweep then",
        )
    kept = []
    if url := sweep.state.get("storage"):
        from sage_cli.sweep.storage import remove_studies

        others = dict.fromkeys(map(str, remove_studies(url, sweep.name, mark_of(sweep.folder))))
        kept = [f"its study in the database stays: it is driven by {other}" for other in others]
    sweep.remove()
    return kept


def dashboard_command(sweep: StoredSweep, port: int) -> list[str]:
    """What starts optuna-dashboard on the sweep's study, to be looked at on this machine.

    Raises ConfigurationError where it isn't installed or the port is taken, StoreError where the
    sweep has no study yet.
    """
    beside = Path(sys.executable).with_name("optuna-dashboard")
    program = str(beside) if beside.is_file() else shutil.which("optuna-dashboard")
    if program is None:
        raise ConfigurationError(
            "optuna-dashboard is not installed", "pip install 'sage-rlvr[dashboard]'"
        )
    url, journal = sweep.state.get("storage"), sweep.folder / "journal.log"
    if url is None and not journal.is_file():
        raise StoreError(f"{sweep.name} has no study yet", _go_on(sweep))
    with socket.socket() as taken:
        if taken.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigurationError(f"port {port} is taken", "name another one with --port")
    return [program, url or str(journal), "--port", str(port)]


def _best(result: SweepResult, objective: str, sweep: StoredSweep) -> Best:
    place = result.best(objective)
    if place is None:
        raise StoreError(f"no cell of {sweep.name} is done", _go_on(sweep))
    cell = result.cells[place]
    assert cell.values is not None  # the best of those that are done
    known = objective in result.findings.rankings
    return Best(
        objective,
        place + 1,
        cell,
        cell.values[result.objectives.index(objective)],
        result.interval(place, objective),
        command_of(sweep, cell),
        tuple(sorted(one + 1 for one in result.alike(objective) - {place})) if known else None,
    )


def command_of(sweep: StoredSweep, cell: SweepCell) -> str:
    """The `sage rl` that leads to the cell's first run, all digits of numbers in it.

    Where settings can't be said in words it names the configuration that the driver kept.
    """
    stored = load(stored=read_layer(sweep.folder / "config.json")).config
    config = point_config(shared_config(stored), cell.settings)
    words = options_for(config)
    if words is None:
        (kept, *_) = [sweep.folder / TASKS / f"{run}.json" for run in cell.runs]
        words = ("--config", str(kept))
    return shlex.join(("sage", "rl", *words))


def _go_on(sweep: StoredSweep) -> str:
    file = sweep.folder / "config.json"
    services = service_words(read_object(file, AGAIN)) if file.is_file() else []
    return f"`{shlex.join(['sage', 'sweep', '--config', str(file), *services])}` goes on with it"
