"""The storage of a study, a journal or a database, and the lease of its one driver.

A sweep's folder has a lock; two folders have two. A study in a database therefore names its driver
in an attribute, which the driver renews while it lives.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.settings.passwords import secrets_of, taken, without_passwords
from sage_cli.store.locks import EXPIRY_S, HEARTBEAT_S, SETTLE_S, Holder

DRIVER = "driver"
"""The attribute of the study."""
_POLL_S = 0.2
Result = TypeVar("Result")
Patiently = Callable[[Callable[[], Any]], Any]


@dataclass(frozen=True)
class Owner:
    """A sweep's folder whose driver works, or worked last, on a study.

    `mark` identifies the folder, wherever it is moved; `config` is the hash of what decides its
    trials' results. `holder` is the process; None once it has ended. `beat` counts its
    heartbeats.
    """

    mark: str
    folder: str
    config: str
    host: str
    holder: Holder | None = None
    beat: int = 0

    def __str__(self) -> str:
        by = f"{self.holder}" if self.holder else f"nobody now, on {self.host}"
        return f"{by}, from {self.folder}"


def owner_of(study: optuna.Study) -> Owner | None:
    """The present or last driver of a study; None if there was none."""
    kept = study.user_attrs.get(DRIVER)
    if not isinstance(kept, dict):
        return None
    holder = kept.get("holder")
    return Owner(**{**kept, "holder": Holder(**holder) if holder else None})


@dataclass
class Lease:
    """The lease of a folder's driver on a study, until `drop`."""

    study: optuna.Study
    own: Owner
    patiently: Patiently
    _over: threading.Event = field(default_factory=threading.Event)
    _taken_by: Owner | None = None

    def take(self) -> Owner | None:
        """Take the lease; returns its last owner if that was another folder.

        Raises StoreError while another process drives the study, and ConfigurationError if the
        study has the trials of other settings.
        """
        before = self._owner()
        elsewhere = before is not None and before.mark != self.own.mark
        if before is not None and elsewhere and before.config != self.own.config:
            raise ConfigurationError(
                f"the study {self.study.study_name} in the database is of another sweep, that of "
                f"{before.folder} on {before.host}",
                "give this sweep another name with --study, or another --storage",
            )
        if before is not None and self._lives(before):
            raise self._refusal(before)
        self.own = replace(self.own, holder=Holder.this_process())
        self.patiently(lambda: self.study.set_user_attr(DRIVER, asdict(self.own)))
        time.sleep(SETTLE_S)
        # two drivers may have found it free at once: after the wait, both see which wrote last
        latest = self._owner()
        if latest is not None and latest.holder != self.own.holder:
            raise self._refusal(latest)
        threading.Thread(target=self._beat, daemon=True).start()
        return before if elsewhere else None

    def require(self) -> None:
        """Raise StoreError if another process took the lease while this one was frozen."""
        if self._taken_by is not None:
            raise self._refusal(self._taken_by)

    def drop(self) -> None:
        """Release the lease, so that the next driver need not wait."""
        self._over.set()
        with suppress(DBAPIError, StorageInternalError):  # else it waits for a heartbeat
            latest = owner_of(self.study)
            if latest is not None and latest.holder == self.own.holder:
                self.study.set_user_attr(DRIVER, asdict(replace(latest, holder=None)))

    def _owner(self) -> Owner | None:
        owner: Owner | None = self.patiently(lambda: owner_of(self.study))
        return owner

    def _lives(self, owner: Owner) -> bool:
        """Return True if an owner's process sends a heartbeat; clocks of hosts are not compared."""
        until_s = time.monotonic() + EXPIRY_S
        while owner.holder is not None and not _is_dead_here(owner.holder):
            if (latest := self._owner()) is None:
                return False
            if (latest.holder, latest.beat) != (owner.holder, owner.beat):
                if latest.holder is not None:
                    return True
                owner = latest
            elif time.monotonic() >= until_s:
                return False
            time.sleep(_POLL_S)
        return False

    def _beat(self) -> None:
        beat = 0
        while not self._over.wait(HEARTBEAT_S):
            with suppress(DBAPIError, StorageInternalError):  # a database that is restarted
                latest = owner_of(self.study)
                if latest is not None and latest.holder != self.own.holder:
                    self._taken_by = latest
                    return
                beat += 1
                self.study.set_user_attr(DRIVER, asdict(replace(self.own, beat=beat)))

    def _refusal(self, owner: Owner) -> StoreError:
        return StoreError(
            f"the study {self.study.study_name} in the database is driven by {owner}, and a study "
            "has one driver",
            "wait until it ends, or stop it; or give this sweep another name with --study",
        )


def _is_dead_here(holder: Holder) -> bool:
    """Return True if it was a process of this host that has ended."""
    if not holder.is_of_this_host:
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives
log = logging.getLogger(__name__)

JOURNAL = "journal.log"
PATIENCE_S = 120.0
"""How long a database that was reached once may be away, as while it is restarted."""


def open_storage(location: Path | str) -> BaseStorage:
    """The storage at `place`, a folder or a database's URL, for its one driver.

    A journal is repaired after a kill. Raises ConfigurationError for an invalid URL, StoreError if
    a database is unreachable.
    """
    if isinstance(location, str):
        return _database(location)
    path = location / JOURNAL
    location.mkdir(parents=True, exist_ok=True)
    _mend(path)
    return JournalStorage(JournalFileBackend(str(path)))


def patiently(location: Path | str, operation: Callable[[], Result]) -> Result:
    """The result of `operation`, which is repeated for a while if the database is away."""
    began, pause_s = time.monotonic(), 0.2
    while True:
        try:
            return operation()
        except (DBAPIError, StorageInternalError) as error:
            if time.monotonic() - began > PATIENCE_S:
                raise _unreachable(str(location), error) from None
            if pause_s == 0.2:
                log.warning("%s; it is tried again", _unreachable(str(location), error).cause)
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


def _unreachable(location: str, error: Exception) -> StoreError:
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return StoreError(
        f"the study's database {without_passwords(location)} can't be reached: "
        f"{_first_line(cause)}",
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
