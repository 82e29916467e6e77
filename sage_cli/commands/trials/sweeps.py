"""Stored sweeps: their best trials and pictures; sweeps are cancelled and removed."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from difflib import get_close_matches
from pathlib import Path

from typing_extensions import TypedDict

from sage_cli.config.command_line import options_for
from sage_cli.config.consent import function_words, without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.config.stored import service_words
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.progress import Progress
from sage_cli.reports.sweeps.result import SweepResult, SweepTrial, Value
from sage_cli.settings.presets import read_layer
from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import read_object
from sage_cli.trials.search.folder import AGAIN, COMMANDS, CONFIG, OTHER_VERSION, TASKS, SweepFolder
from sage_cli.trials.search.sweep import point_config, shared_config


class Best(TypedDict):
    """The best trial by an objective, by its number in the report.

    `words` are the command that trains its first run, or finds it. `alike` are the numbers of the
    trials that are indistinguishable from it, null if the noise is unknown.
    """

    objective: str
    number: int
    value: float
    interval: tuple[float, float] | None
    words: str
    alike: tuple[int, ...] | None
    settings: dict[str, Value]
    runs: tuple[str, ...]


def best_trials(sweep: SweepFolder, objective: str | None = None) -> list[Best]:
    """The best trial by each objective, or by the one that is named.

    Raises StoreError if no trial is done, ConfigurationError for an unknown objective.
    """
    result = reported(sweep)
    if objective is not None and objective not in result.objectives:
        close = get_close_matches(objective, result.objectives, n=1)
        there = ", ".join(result.objectives)
        raise ConfigurationError(
            f"{sweep.name} has no objective '{objective}'; it has {there}",
            f"did you mean {close[0]}?" if close else "name one of those",
        )
    wanted = result.objectives if objective is None else (objective,)
    return [_best(result, one, sweep) for one in wanted]


def reported(sweep: SweepFolder) -> SweepResult:
    """The sweep's report. Raises StoreError while there is none."""
    if (result := sweep.result) is None:
        how = "it is written when the driver ends" if sweep.driven_by else _resume(sweep)
        raise StoreError(f"{sweep.name} has no report yet", how)
    return result


def draw(sweep: SweepFolder, folder: Path | None = None) -> list[Path]:
    """Write Optuna's pictures of the sweep's report; returns the files.

    Raises StoreError if no trial is done.
    """
    from sage_cli.reports.sweeps.optuna_pictures import write_pictures

    result = reported(sweep)
    if not result.done:
        raise StoreError(f"no trial of {sweep.name} is done", _resume(sweep))
    return write_pictures(result, folder or sweep.path / "pictures")


def cancel(sweep: SweepFolder) -> str:
    """Ask the driver to stop; returns a sentence about what was done, or is left to do by hand.

    Raises StoreError if there is nothing to cancel.
    """
    if sweep.driven_by:
        sweep.cancel()
        return (
            f"{sweep.driven_by} was asked to stop driving {sweep.name}: what its tasks have saved "
            f"stays, and {_resume(sweep)}"
        )
    if not sweep.jobs:
        raise StoreError(f"nobody drives {sweep.name}, and no jobs of it are left", _resume(sweep))
    jobs = " ".join(sweep.jobs)
    return (
        f"nobody drives {sweep.name}, and {_jobs_left(sweep)}: "
        f"`scancel {jobs}` ends those that still run; {_resume(sweep)}"
    )


def remove(sweep: SweepFolder) -> list[str]:
    """Delete the sweep's folder and its study; runs stay. Raises StoreError while it is driven.

    A study in a database that another folder drives, or drove last, stays; returns a sentence for
    each of these.
    """
    if sweep.driven_by:
        raise StoreError(
            f"{sweep.name} is driven by {sweep.driven_by}",
            f"`sage sweep cancel {sweep.name}` stops it; remove it then",
        )
    if sweep.jobs:
        raise StoreError(
            _jobs_left(sweep),
            f"end those that run with `scancel {' '.join(sweep.jobs)}`, delete "
            f"{sweep.path / TASKS / 'jobs.json'}, and remove the sweep then",
        )
    kept = []
    if url := sweep.state.get("storage"):
        from sage_cli.trials.search.storage import remove_studies

        others = dict.fromkeys(map(str, remove_studies(url, sweep.name, sweep.known_mark)))
        kept = [f"its study in the database stays: it is driven by {other}" for other in others]
    sweep.remove()
    return kept


def dashboard_command(sweep: SweepFolder, port: int) -> list[str]:
    """The command that starts optuna-dashboard on the sweep's study, for this machine alone.

    Raises ConfigurationError if it is not installed or the port is taken, StoreError if the sweep
    has no study yet.
    """
    beside = Path(sys.executable).with_name("optuna-dashboard")
    program = str(beside) if beside.is_file() else shutil.which("optuna-dashboard")
    if program is None:
        raise ConfigurationError(
            "optuna-dashboard is not installed", "pip install 'sage-rlvr[dashboard]'"
        )
    url, journal = sweep.state.get("storage"), sweep.path / "journal.log"
    if url is None and not journal.is_file():
        raise StoreError(f"{sweep.name} has no study yet", _resume(sweep))
    with socket.socket() as taken:
        if taken.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigurationError(f"port {port} is taken", "name another one with --port")
    return [program, url or str(journal), "--port", str(port)]


def _best(result: SweepResult, objective: str, sweep: SweepFolder) -> Best:
    place = result.best(objective)
    if place is None:
        raise StoreError(f"no trial of {sweep.name} is done", _resume(sweep))
    trial = result.trials[place]
    assert trial.values is not None  # the best of those that are done
    same = sorted(one + 1 for one in result.indistinguishable(objective) - {place})
    return {
        "objective": objective,
        "number": place + 1,
        "value": trial.values[objective],
        "interval": (trial.intervals or {}).get(objective),
        "words": command_of(sweep, trial),
        "alike": tuple(same) if objective in result.rankings else None,
        "settings": dict(trial.settings),
        "runs": trial.runs,
    }


def settings_of(sweep: SweepFolder) -> SageConfig:
    """Return the settings that a sweep was typed with, without code that they name.

    Raises StoreError if this version of sage knows other ones.
    """
    file = sweep.path / CONFIG
    try:
        return load(stored=without_consent(read_layer(file))).config
    except ConfigurationError as error:
        raise StoreError(
            f"{file} was written by another version of sage, or edited: {error.cause}",
            OTHER_VERSION,
        ) from None


def command_of(sweep: SweepFolder, trial: SweepTrial) -> str:
    """The `sage rl` that leads to the trial's first run, with all digits of its numbers.

    It names the stored configuration of the run if no words make the settings.
    """
    words = options_for(point_config(shared_config(settings_of(sweep)), trial.settings))
    if words is None:
        words = ("--config", str(sweep.path / TASKS / f"{trial.runs[0]}.json"))
    functions = function_words(read_layer(sweep.path / CONFIG))
    return shlex.join(("sage", "rl", *words, *functions))


def write_page(sweep: SweepFolder, root: Path, progress: Progress) -> None:
    """Write the page of a sweep's report beside it, and the command of each trial."""
    from sage_cli.view.page_file import write_page as write_page_file

    trials = enumerate(reported(sweep).trials, 1)
    commands = {number: command_of(sweep, trial) for number, trial in trials if trial.runs}
    write_json(sweep.path / COMMANDS, commands)
    with progress.doing("writing the page"):
        write_page_file(root, sweep.page, "sweep", sweep.name)


def _jobs_left(sweep: SweepFolder) -> str:
    count = len(sweep.jobs)
    jobs = "1 job" if count == 1 else f"{count} jobs"
    return f"{jobs} of {sweep.name} {'is' if count == 1 else 'are'} left with the cluster"


def _resume(sweep: SweepFolder) -> str:
    file = sweep.path / CONFIG
    services = service_words(read_object(file, AGAIN)) if file.is_file() else []
    return f"`{shlex.join(['sage', 'sweep', '--config', str(file), *services])}` resumes it"
