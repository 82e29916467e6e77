"""The recording of a run: locked, described, and with a true status however it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DivergedError, OutOfMemoryError, SageError, StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.lock import writer
from sage_cli.store.runs.manifest import FAILED, FINISHED, INTERRUPTED, RUNNING, Origin
from sage_cli.store.surroundings import surroundings

if TYPE_CHECKING:
    from sage_cli.store.runs.run import Run


@contextmanager
def recorded(run: Run, config: Mapping[str, Any], origin: Origin) -> Iterator[Run]:
    """Do as `Run.recording` says."""
    new = not run.begun
    try:
        with _described(run, config, origin) as leased:
            yield leased
    except (OutOfMemoryError, DivergedError):
        raise
    except SageError:
        if new and _has_done_nothing(run):
            with suppress(OSError, StoreError):  # another process has taken over
                run.clear()
        raise


def now() -> str:
    """Return the time as manifests have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def _described(run: Run, config: Mapping[str, Any], origin: Origin) -> Iterator[Run]:
    with writer(run.folder) as lease:
        _require_same_identity(run)
        began, spent_s = time.monotonic(), float(run.manifest.get("seconds", 0.0))
        write_json(run.folder / "config.json", config)
        created = run.manifest.get("created", now())
        run.note(
            id=run.id,
            identity=run.identity,
            created=created,
            started=now(),
            status=RUNNING,
            reason=None,
            error=None,
            **surroundings(),
            **origin,
        )

        def close(status: str, reason: str | None = None, error: str | None = None) -> None:
            lease.require()  # the status is now the business of the process that took over
            seconds = round(spent_s + time.monotonic() - began, 3)
            run.note(status=status, reason=reason, error=error, ended=now(), seconds=seconds)

        try:
            yield replace(run, lease=lease)
        except BaseException as error:
            with suppress(OSError, StoreError):  # a full disk must not hide its error
                close(*_end(error))
            raise
        close(FINISHED)


def _has_done_nothing(run: Run) -> bool:
    """Return True if the run failed before it wrote any result."""
    left = (run.metrics.path, run.checkpoints, run.model)
    return run.known.get("status") == FAILED and not any(path.exists() for path in left)


def _require_same_identity(run: Run) -> None:
    if run.planned is None or not run.manifest:
        return
    if (recorded := run.manifest.get("identity")) != run.planned:
        raise StoreError(
            f"{run.folder} holds another run: its identity is {recorded}, not {run.planned}",
            "move it elsewhere, or choose another folder with --runs",
        )


def _end(error: BaseException) -> tuple[str, str, str | None]:
    """Return status and reason of a run that `error` ended, and the error's class if it failed."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, str(error) or "interrupted by the user", None
    if isinstance(error, SageError):
        return FAILED, error.cause, kind
    return FAILED, f"{kind}: {error}", kind
