"""The lease of a study in a database: one driver at a time, of all folders that name the study.

A sweep's folder has a lock; two folders have two. A study in a database therefore names its driver
in an attribute, which the driver renews while it lives.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import DBAPIError

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.store.lease import EXPIRY_S, HEARTBEAT_S, SETTLE_S, Holder

DRIVER = "driver"
"""The attribute of the study."""
_POLL_S = 0.2
Result = TypeVar("Result")
Patiently = Callable[[Callable[[], Any]], Any]


@dataclass(frozen=True)
class Owner:
    """A sweep's folder whose driver works, or worked last, on a study.

    `mark` identifies the folder, wherever it is moved; `recipe` is the hash of what decides its
    trials' results. `holder` is the process; None once it has ended. `beat` counts its
    heartbeats.
    """

    mark: str
    folder: str
    recipe: str
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
        study has the trials of another recipe.
        """
        before = self._owner()
        elsewhere = before is not None and before.mark != self.own.mark
        if before is not None and elsewhere and before.recipe != self.own.recipe:
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
        found = self._owner()
        if (
            found is not None and found.holder != self.own.holder
        ):  # the last one that wrote has the lease
            raise self._refusal(found)
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
            found = owner_of(self.study)
            if found is not None and found.holder == self.own.holder:
                self.study.set_user_attr(DRIVER, asdict(replace(found, holder=None)))

    def _owner(self) -> Owner | None:
        found: Owner | None = self.patiently(lambda: owner_of(self.study))
        return found

    def _lives(self, owner: Owner) -> bool:
        """Return True if an owner's process sends a heartbeat; clocks of hosts are not compared."""
        until_s = time.monotonic() + EXPIRY_S
        while owner.holder is not None and not _is_dead_here(owner.holder):
            if (now := self._owner()) is None:
                return False
            if (now.holder, now.beat) != (owner.holder, owner.beat):
                if now.holder is not None:
                    return True
                owner = now
            elif time.monotonic() >= until_s:
                return False
            time.sleep(_POLL_S)
        return False

    def _beat(self) -> None:
        beat = 0
        while not self._over.wait(HEARTBEAT_S):
            with suppress(DBAPIError, StorageInternalError):  # a database that is restarted
                found = owner_of(self.study)
                if found is not None and found.holder != self.own.holder:
                    self._taken_by = found
                    return
                beat += 1
                self.study.set_user_attr(DRIVER, asdict(replace(self.own, beat=beat)))

    def _refusal(self, other: Owner) -> StoreError:
        return StoreError(
            f"the study {self.study.study_name} in the database is driven by {other}, and a study "
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
