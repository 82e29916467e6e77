"""The storage of a study: a journal in the sweep's folder, or a database by its URL."""

from __future__ import annotations

import logging
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
from sage_cli.settings.passwords import secrets_of, taken, without_passwords
from sage_cli.trials.search.lease import Owner, owner_of

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives
log = logging.getLogger(__name__)

JOURNAL = "journal.log"
PATIENCE_S = 120.0
"""How long a database that was reached once may be away, as while it is restarted."""
Result = TypeVar("Result")


def open_storage(place: Path | str) -> BaseStorage:
    """The storage at `place`, a folder or a database's URL, for its one driver.

    A journal is repaired after a kill. Raises ConfigurationError for an invalid URL, StoreError if
    a database is unreachable.
    """
    if isinstance(place, str):
        return _database(place)
    path = place / JOURNAL
    place.mkdir(parents=True, exist_ok=True)
    _mend(path)
    return JournalStorage(JournalFileBackend(str(path)))


def patiently(place: Path | str, operation: Callable[[], Result]) -> Result:
    """The result of `operation`, which is repeated for a while if the database is away."""
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


def remove_studies(url: str, sweep: str, mark: str | None) -> list[Owner]:
    """Delete a sweep's views from a database that it may share with other sweeps.

    Views that another folder than that with this `mark` drives, or drove last, stay; returns their
    owners.
    """
    storage = open_storage(url)
    others = {}

    def removed() -> None:
        for name in optuna.get_all_study_names(storage):
            if name.startswith(f"{sweep}/"):
                owner = owner_of(optuna.load_study(study_name=name, storage=storage))
                if owner is None or owner.mark == mark:
                    optuna.delete_study(study_name=name, storage=storage)
                else:
                    others[name] = owner

    patiently(url, removed)
    return list(others.values())


def _database(typed: str) -> BaseStorage:
    """A database; its password is passed beside the URL, since errors and records quote the URL."""
    url: str = taken(typed)
    options = {"pool_pre_ping": True, "connect_args": secrets_of(url)}
    try:
        return get_storage(RDBStorage(url, engine_kwargs=options))
    except NoSuchModuleError as error:
        raise ConfigurationError(
            f"sweep.storage '{url}' is of no database that SQLAlchemy knows: {_first_line(error)}",
            "write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
        ) from None
    except ArgumentError:  # not quoted, since it may hold a password
        raise ConfigurationError(
            "sweep.storage is no database's URL",
            "write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
        ) from None
    except ImportError as error:
        raise ConfigurationError(
            f"sweep.storage '{url}' needs a package that isn't installed: {error}",
            "install it, as with pip install 'psycopg[binary]' for postgresql://",
        ) from None
    except (DBAPIError, StorageInternalError, OSError) as error:
        raise _unreachable(url, error) from None


def _unreachable(place: str, error: Exception) -> StoreError:
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return StoreError(
        f"the study's database {without_passwords(place)} can't be reached: {_first_line(cause)}",
        "see that it runs, that sweep.storage names it, and that a password is in $PGPASSWORD or "
        "~/.pgpass if it wants one; what was done is kept, and the same command resumes there",
    )


def _first_line(error: BaseException | None) -> str:
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _mend(path: Path) -> None:
    """Remove what a killed driver left: half a line, and the lock with which it wrote.

    Only the process with the sweep's lock opens the journal to write.
    """
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
