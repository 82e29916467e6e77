"""Fixtures that every test may ask for, and the tier of tests that read published rows."""

import gc
import os
from contextlib import chdir
from functools import cache
from importlib.metadata import EntryPoints, distributions, entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from sage_cli.grading import Grader
from sage_cli.settings import own_code

THEIRS = (
    "SAGE_",
    "WANDB_",
    "TRACKIO_",
    "OPTUNA_",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "RAY_",
    "SLURM_",
    "SBATCH_",
    "PG",
    "ACCELERATE_",
    "MASTER_",
    "TORCHELASTIC_",
    "LOCAL_",
    "WORLD_SIZE",
    "RANK",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
)
"""Beginnings of variables by which whoever types the tests may have told programs something."""

for name in [name for name in os.environ if name.startswith(THEIRS)]:
    del os.environ[name]
# the first is read when the Hub's client is imported; the second is where W&B looks for a key
os.environ |= {"HF_HUB_OFFLINE": "1", "NETRC": os.devnull}

_POINTS = (point for package in distributions() for point in package.entry_points)
THEIR_PLUGINS = {point for point in _POINTS if point.group.startswith("sage_cli.")}
"""What packages add to sage that whoever types the tests has installed, or left in examples/."""


def _plugins(**chosen):
    """The entry points of the packages that tests add."""
    return EntryPoints(point for point in entry_points(**chosen) if point not in THEIR_PLUGINS)


own_code.entry_points = _plugins

# no test takes the machine's power away, and to wait for the disk is half the time of a small run
os.fsync = lambda _: None

# how long an example takes says something of the machine, and nothing is timed in tests
settings.register_profile("sage", deadline=None)
settings.load_profile("sage")

TIERS = ("faults", "integration", "invariant", "contract")
HEAVY = (
    "guides",
    "methods",
    "models",
    "sampling",
    "training",
    "cli/test_analyze.py",
    "cli/test_compare.py",
    "cli/test_consent.py",
    "cli/test_damaged_files.py",
    "cli/test_doctor.py",
    "cli/test_export.py",
    "cli/test_logs.py",
    "cli/test_own_model.py",
    "cli/test_power.py",
    "cli/test_samples.py",
    "cli/test_samples_tokens.py",
    "cli/test_startup.py",
    "cli/test_training_run.py",
    "evaluation/test_evaluate.py",
    "trials/suites/test_report.py",
    "trials/sweep/test_run.py",
    "grading/mathematics/test_mathverify.py",
    "grading/test_grader_workers.py",
    "metrics/test_coverage.py",
    "problems/test_real_tokenizers.py",
    "reports/figures",
    "trials/sweep/test_report.py",
    "reports/test_token_report.py",
    "store/test_local_mirrors.py",
    "store/test_wandb_mirror.py",
)
"""Folders and files of units that load torch, Math-Verify or matplotlib, simulate throughout or
start processes: `make test-fast` doesn't even read them."""

_HERE = Path(__file__).resolve().parent
_DESELECTED = pytest.StashKey[int]()


def _shared():
    """The folder of published rows beside the checkout, or above it."""
    folders = (parent / "shared" for parent in _HERE.parents)
    return next((folder for folder in folders if (folder / "data").is_dir()), None)


def pytest_ignore_collect(collection_path, config):
    """Don't read what `-m "not slow"` leaves out whole: to load torch and TRL takes ten seconds."""
    wanted = config.getoption("markexpr") != "not slow" or not _is_heavy(collection_path)
    return None if wanted else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what reads published rows as `data`, and leave it out where there are none."""
    items.sort(key=_rank)  # long files first, so that both workers end at about the same time
    for item in items:
        if _is_heavy(item.path):
            item.add_marker(pytest.mark.slow)
    reading = [item for item in items if "shared" in getattr(item, "fixturenames", ())]
    for item in reading:
        item.add_marker(pytest.mark.data)
    if reading and _shared() is None:
        items[:] = [item for item in items if item not in reading]
        config.hook.pytest_deselected(items=reading)
        config.stash[_DESELECTED] = len(reading)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector the libraries' objects, while they are loaded and afterwards."""
    gc.disable()
    collected = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return collected


@cache
def _is_heavy(path):
    return any(path.is_relative_to(_HERE / "unit" / heavy) for heavy in HEAVY)


def _rank(item):
    """Whole trainings and commands before units, units of training before the others."""
    tier = item.path.relative_to(_HERE).parts
    if tier[0] != "unit":
        return TIERS.index(tier[0]) if tier[0] in TIERS else len(TIERS)
    return len(TIERS) + 1 if tier[1] in ("training", "sampling") else len(TIERS) + 2


def pytest_terminal_summary(terminalreporter):
    """Say in one line what was left out."""
    if count := terminalreporter.config.stash.get(_DESELECTED, 0):
        terminalreporter.write_line(
            f"{count} tests of published rows left out: no folder shared/data beside this checkout"
        )


@pytest.fixture(scope="session", autouse=True)
def _nobodys_folder():
    """Shared fixtures begin in an empty folder: a checkout may have runs, presets and data."""
    with TemporaryDirectory() as folder, chdir(folder):
        yield


@pytest.fixture(autouse=True)
def _own_folder():
    """A test begins in an empty folder of its own."""
    with TemporaryDirectory() as folder, chdir(folder):
        yield


@pytest.fixture(scope="session")
def shared():
    """The folder of published rows; tests that ask for it are left out where it is absent."""
    folder = _shared()
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def facts():
    """The folder of numbers and answers that come with the project."""
    return _HERE / "data"


@pytest.fixture(scope="session")
def grader():
    """A strict grader; one worker for all tests that needn't kill it."""
    with Grader(workers=1, timeout_s=60) as shared_grader:
        yield shared_grader


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """`sage` with the libraries loaded, for tests that aren't about a process's beginning.

    All workers of a session share what it takes.
    """
    from warm import start_warm

    mine = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return start_warm(mine.parent / "warm", os.getppid())
    return start_warm(mine / "warm", os.getpid())
