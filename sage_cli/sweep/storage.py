"""Where a study is kept: a journal in the sweep's folder, or a database by its URL."""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from sage_cli.errors import ConfigurationError, StoreError

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives
warnings.filterwarnings("ignore", message="PedAnovaImportanceEvaluator computes")  # it is known
log = logging.getLogger(__name__)

JOURNAL = "journal.log"
PATIENCE_S = 120.0
"""How long a database that was reached once may be away, as while it is restarted."""
Result = TypeVar("Result")


def open_storage(place: Path | str, *, write: bool) -> BaseStorage:
    """The storage at `place`: a folder, or a database's URL.

    `write`: by the one driver, which mends what a killed one left of the journal. Raises
    ConfigurationError for a URL that is none, StoreError for what can't be reached or isn't there.
    """
    if isinstance(place, str):
        return _database(place)
    path = place / JOURNAL
    if write:
        place.mkdir(parents=True, exist_ok=True)
        _mend(path)
    elif not path.is_file():
        raise StoreError(f"there is no study in {place}", "name a sweep's folder")
    return JournalStorage(JournalFileBackend(str(path)))


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*:).*@", r"\1***@", url))


def patiently(place: Path | str, operation: Callable[[], Result]) -> Result:
    """What `operation` returns; where the database is away it is tried again for a while."""
    began, pause_s = time.monotonic(), 0.2
    while True:
        try:
            return operation()
        except (DBAPIError, StorageInternalError) as error:
            if time.monotonic() - began > PATIENCE_S:
                raise _unreachable(str(place), error) from None
            if pause_s == 0.2:
                log.warning("%s; it is tried again", _unreachable(str(place), error).cause)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 5.0)


def remove_studies(url: str, sweep: str) -> None:
    """Delete a sweep's views from a database that it may share with other sweeps."""
    storage = open_storage(url, write=True)

    def removed() -> None:
        for name in optuna.get_all_study_names(storage):
            if name.startswith(f"{sweep}/"):
                optuna.delete_study(study_name=name, storage=storage)

    patiently(url, removed)


def _database(url: str) -> BaseStorage:
    try:
        return get_storage(RDBStorage(url, engine_kwargs={"pool_pre_ping": True}))
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigurationError(
            f"sweep.storage '{shown(url)}' is no database's URL: {_first_line(error, url)}",
            "write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
        ) from None
    except ImportError as error:
        raise ConfigurationError(
            f"sweep.storage '{shown(url)}' needs a package that isn't installed: {error}",
            "install it, as with pip install 'psycopg[binary]' for postgresql://",
        ) from None
    except (DBAPIError, StorageInternalError, OSError) as error:
        raise _unreachable(url, error) from None


def _unreachable(place: str, error: Exception) -> StoreError:
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return StoreError(
        f"the study's database {shown(place)} can't be reached: {_first_line(cause, place)}",
        "see that it runs and that sweep.storage names it; what was done is kept, and the same "
        "command goes on from there",
    )


def _first_line(error: BaseException | None, url: str) -> str:
    text = str(getattr(error, "orig", None) or error).strip()
    secret = re.search(r"://[^:/@]*:(.*)@", url)
    text = text.replace(secret[1], "***") if secret and secret[1] else text
    return text.splitlines()[0] if text else type(error).__name__


def _mend(path: Path) -> None:
    """Take away what a killed driver left: half a line, and the lock with which it wrote that.

    Whoever opens the journal to write holds the sweep, so that nobody else has the lock.
    """
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
