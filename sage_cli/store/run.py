"""Run directories: identity, manifest, status, and finding one again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from sage_cli.errors import SageError, StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import read_object
from sage_cli.store.lock import LAUNCHER, is_held, writer
from sage_cli.store.manifest import Origin
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.names import full_name
from sage_cli.store.surroundings import surroundings

FINISHED, RUNNING, INTERRUPTED, FAILED = "finished", "running", "interrupted", "failed"
PRUNED = "pruned"
"""An interruption that a sweep asked for, with its reason; the same command goes on all the same.
"""
SEAL = "sealed.json"
"""In a checkpoint whose files are all on the disk."""


@dataclass(frozen=True)
class Run:
    """A directory `runs/<id>/` with config.json, manifest.json, metrics.jsonl and model/.

    `planned` is the identity that a recipe gives it, known before the directory exists.
    """

    folder: Path
    planned: str | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The directory's name: kind, label and eight digits of the identity."""
        return self.folder.name

    @property
    def identity(self) -> str | None:
        """The hash of what determines its result; None for a run of a release without it."""
        return self.planned or self.manifest.get("identity")

    @property
    def model(self) -> Path:
        """The trained model, an ordinary Hugging Face folder."""
        return self.folder / "model"

    @property
    def checkpoints(self) -> Path:
        """Where training can be taken up again."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> MetricsFile:
        """The run's metrics.jsonl."""
        return MetricsFile(self.folder / "metrics.jsonl")

    @property
    def rollouts(self) -> MetricsFile:
        """The run's rollouts.jsonl: completions that RL drew, with their verdicts."""
        return MetricsFile(self.folder / "rollouts.jsonl")

    @property
    def guide(self) -> Path:
        """What its guide does to some completions, token by token (`sage guide show --keep`)."""
        return self.folder / "guide.json"

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration it was made with."""
        return self._read("config.json")

    @property
    def manifest(self) -> dict[str, Any]:
        """Versions, commit, host, parent, status, timings; empty for a run not yet begun."""
        return self._read("manifest.json") if (self.folder / "manifest.json").is_file() else {}

    @property
    def status(self) -> str:
        """What became of the run; one that was killed says running, and nobody holds it."""
        status = str(self.manifest.get("status"))
        return INTERRUPTED if status == RUNNING and not is_held(self.folder) else status

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.manifest.get("status") == FINISHED

    def note(self, **fields: Any) -> None:
        """Add or change fields of the manifest (`store/manifest.py`), atomically."""
        write_json(self.folder / "manifest.json", {**self.manifest, **fields})

    def ask(self) -> None:
        """Note that a finished run was asked for again: the latest, and no sweep's any more."""
        self.note(asked=_now(), sweep=None)

    @property
    def anew(self) -> Run:
        """Where it is trained anew: under the same name, which checkpoints and mirrors are told."""
        return Run(self.folder.parent / ".anew" / self.id, self.planned)

    def clear(self) -> None:
        """Delete everything the run holds, unless somebody is writing it."""
        if self.folder.is_dir():
            shutil.rmtree(self.set_aside())

    def set_aside(self) -> Path:
        """Rename the folder out of the way, unless somebody is writing it; returns where to.

        So that a kill leaves a run whole or gone. What an earlier kill left there is deleted.
        """
        aside = self.folder.with_name(f".{self.id}.old")
        with writer(self.folder), writer(self.folder, LAUNCHER):
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
        return aside

    @contextmanager
    def recording(self, config: Mapping[str, Any], **origin: Unpack[Origin]) -> Iterator[None]:
        """Hold the directory, write configuration and manifest, and keep the status true.

        An interruption or failure leaves everything that is needed to take the run up again.
        Raises StoreError where the directory holds a run of another identity.
        """
        with writer(self.folder) as hold:
            self._require_same_identity()
            began, spent_s = time.monotonic(), float(self.manifest.get("seconds", 0.0))
            write_json(self.folder / "config.json", config)
            created = self.manifest.get("created", _now())
            self.note(id=self.id, identity=self.identity, created=created, started=_now(),
                      status=RUNNING, reason=None, error=None,
                      **surroundings(), **origin)  # fmt: skip

            def close(status: str, reason: str | None = None, error: str | None = None) -> None:
                hold.require()  # whoever has taken over says what becomes of it
                seconds = round(spent_s + time.monotonic() - began, 3)
                self.note(status=status, reason=reason, error=error, ended=_now(), seconds=seconds)

            try:
                yield
            except BaseException as error:
                with suppress(OSError, StoreError):  # a full disk doesn't hide what it has caused
                    close(*_end(error))
                raise
            close(FINISHED)

    def _require_same_identity(self) -> None:
        recorded = self.manifest.get("identity", self.planned) if self.manifest else self.planned
        if self.planned is not None and recorded != self.planned:
            raise StoreError(
                f"{self.folder} holds another run: its identity is {recorded}, not {self.planned}",
                "move it elsewhere, or name another folder with --runs",
            )

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return read_object(self.folder / name, "restore it, or remove the run")
        except FileNotFoundError:
            raise StoreError(f"{self.folder} is not a run: it has no {name}") from None


class Runs:
    """All runs below one root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, kind: str, label: str, identity: str) -> Run:
        """The run of that identity, whether it exists or not."""
        return Run(self.root / f"{kind}-{label}-{identity[:8]}", identity)

    def all(self) -> list[Run]:
        """Every run, oldest first."""
        folders = (path.parent for path in self.root.glob("[!.]*/manifest.json"))
        return sorted(map(Run, folders), key=lambda run: str(run.manifest.get("started")))

    def children(self, run: Run) -> list[str]:
        """The ids of the runs that grew from `run`, oldest first."""
        return [other.id for other in self.all() if other.manifest.get("parent") == run.id]

    def latest(self) -> Run | None:
        """The finished run that was started or asked for last and isn't a sweep's."""
        finished = [r for r in self.all() if r.finished and not r.manifest.get("sweep")]
        return max(finished, key=_last_asked, default=None)

    def find(self, name: str) -> Run:
        """The run called `name`: a folder, an id, or an unambiguous part of one.

        Beginnings and ends go before what stands within.
        """
        if (run := run_of(Path(name))) is not None:
            return run
        runs = {run.id: run for run in self.all()}
        if not runs:
            raise StoreError(
                f"there is no run '{name}', nor any other in {self.root.resolve()}",
                "go to the folder that `runs` is in, or name it: --runs FOLDER, or SAGE_RUNS",
            )
        return runs[full_name(name, runs, "run", f"in {self.root}", "`sage runs list`")]

    def refuse_parent(self, run: Run) -> None:
        """Raise StoreError for a run that others grew from."""
        if children := self.children(run):
            raise StoreError(
                f"{run.id} is the parent of {', '.join(children)}", "remove those first"
            )

    def remove(self, run: Run) -> None:
        """Delete a run that nothing is writing and no other run grew from."""
        self.refuse_parent(run)
        run.anew.clear()
        run.clear()


def run_of(folder: Path) -> Run | None:
    """The run whose directory, or whose model's, `folder` is."""
    for place in (folder, folder.parent if folder.name == "model" else folder):
        if (place / "manifest.json").is_file():
            return Run(place)
    return None


def _end(error: BaseException) -> tuple[str, str, str | None]:
    """Status and reason of a run that `error` ended, and the class of what failed."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, str(error) or "interrupted by the user", None
    if isinstance(error, SageError):
        return FAILED, error.cause, kind
    return FAILED, f"{kind}: {error}", kind


def _last_asked(run: Run) -> str:
    return max(str(run.manifest.get(field, "")) for field in ("started", "asked"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
