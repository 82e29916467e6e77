"""Runs: their folders, with manifests and status."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict, Unpack

from sage_cli import RESULT_VERSION
from sage_cli.errors import BusyError, DivergedError, OutOfMemoryError, SageError, StoreError
from sage_cli.file_hash import changed_files, sealed_hashes
from sage_cli.settings.former_names import today
from sage_cli.store.file_names import EIGHT_DIGITS
from sage_cli.store.files import sweep
from sage_cli.store.json_files import (
    CorruptFileError,
    read_stored,
    warn_of_corrupt_file,
    write_json,
    write_object,
)
from sage_cli.store.locks import LAUNCHER, WRITER, Lease, is_held, now_s, writer
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.names import full_name
from sage_cli.store.surroundings import surroundings

if TYPE_CHECKING:
    from sage_cli.store.ledger import TrainingCompletions, TrainingLedger


FINISHED, RUNNING, INTERRUPTED, FAILED = "finished", "running", "interrupted", "failed"
IMPORTED = "imported"
"""The kind of a run that holds samples of another program, and no weights."""
PRUNED = "pruned"
"""An interruption by a sweep, with its reason; the same command resumes the run."""
CORRUPT = "corrupt"
"""The status of a run whose manifest or configuration cannot be read. It is never written."""
METRICS = "metrics.jsonl"
SEALED = ("config.json", METRICS, "rollouts.jsonl", "model")
"""The files and folders of a finished run whose hashes its manifest has under `files`."""
SEAL = "sealed.json"
"""The mark of a checkpoint whose files are all on disk."""
_OURS = re.compile(rf"\.(?:lock|launcher)(?:\.lease)?|\..+\.{EIGHT_DIGITS}\.tmp")
"""The names of locks, of their leases, and of files that are being written."""


class Origin(TypedDict):
    """The origin of a training.

    `parent` is a run's id or a model's name, `parent_weights` its fingerprint, `template` the
    prompt template's hash, `data` the files' versions or a name, `sweep` the sweep's name.
    `teacher` is the model that a policy was held to, if it was none of its own states.
    """

    kind: str
    parent: str | None
    seed: int
    template: str
    parent_weights: NotRequired[str]
    teacher: NotRequired[str]
    teacher_weights: NotRequired[str]
    data: NotRequired[str | list[str]]
    sweep: NotRequired[str | None]


def now() -> str:
    """Return the time as manifests have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _end(error: BaseException) -> tuple[str, str, str | None]:
    """Return status and reason of a run that `error` ended, and the error's class if it failed."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, str(error) or "interrupted by the user", None
    if isinstance(error, SageError):
        return FAILED, error.cause, kind
    return FAILED, f"{kind}: {error}", kind


@dataclass(frozen=True)
class RunState:
    """What a run's files said when they were read.

    `manifest` has versions, commit, host, parent, status and timings; it is empty before the run is
    begun and where it cannot be read, for which `corruption` is the reason. `is_held` says that a
    process is writing the run.
    """

    manifest: Mapping[str, Any]
    corruption: CorruptFileError | None
    is_held: bool

    @property
    def status(self) -> str:
        """Its status; a run that says `running` and that no process writes was interrupted."""
        if self.corruption is not None:
            return CORRUPT
        status = str(self.manifest.get("status"))
        return INTERRUPTED if status == RUNNING and not self.is_held else status

    @property
    def finished(self) -> bool:
        """True if the run is finished and its files can be read."""
        return self.status == FINISHED


@dataclass(frozen=True)
class Run:
    """A directory `runs/<id>/` with config.json, manifest.json, metrics.jsonl and model/.

    `planned` is the identity that its settings give it, known before the directory exists; `lease`
    is held by this process while `recording` lasts.
    """

    folder: Path
    planned: str | None = field(default=None, compare=False, repr=False)
    lease: Lease | None = field(default=None, compare=False, repr=False)

    @cached_property
    def id(self) -> str:
        """The directory's name: kind, label and the first eight digits of the identity."""
        return self.folder.name

    def read_identity(self) -> str | None:
        """Return the hash of what determines its result; None if no configuration names it."""
        return self.planned or self.read_manifest().get("identity")

    @property
    def model(self) -> Path:
        """The trained model, an ordinary Hugging Face folder."""
        return self.folder / "model"

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> MetricsFile:
        """The run's metrics.jsonl."""
        return self._records(METRICS)

    @property
    def rollouts(self) -> MetricsFile:
        """The run's rollouts.jsonl: some completions of RL with their grades."""
        return self._records("rollouts.jsonl")

    @property
    def ledger(self) -> TrainingLedger:
        """Return the run's `ledger/`: how each prompt of each step of RL was answered."""
        from sage_cli.store.ledger import TrainingLedger

        return TrainingLedger(self.folder / "ledger", self.lease)

    def completions(self, process: int = 0) -> TrainingCompletions:
        """Return the run's `completions/`, which all processes read and each writes its own of."""
        from sage_cli.store.ledger import TrainingCompletions

        return TrainingCompletions(self.folder / "completions", self.lease, process)

    def read_config(self) -> dict[str, Any]:
        """Return its resolved configuration."""
        return deepcopy(today(self._stored("config.json")))

    def read_manifest(self) -> dict[str, Any]:
        """Return versions, commit, host, parent, status, timings; {} before the run is begun.

        Raises CorruptFileError if it is corrupt or of another layout.
        """
        file = self.folder / "manifest.json"
        try:
            manifest = read_stored(file, self._remedy)
        except OSError:
            if self.has_begun():
                raise
            return {}
        if "status" not in manifest:
            raise CorruptFileError(f"{file} has no status: it is of another layout", self._remedy)
        return deepcopy(manifest)

    def try_manifest(self) -> dict[str, Any]:
        """Return the manifest, or an empty one if it cannot be read."""
        try:
            return self.read_manifest()
        except CorruptFileError:
            return {}

    def read(self, *, manifest_alone: bool = False) -> RunState:
        """Return manifest and status, and what is wrong with the manifest or the configuration.

        The configuration isn't looked at for the `manifest_alone`.
        """
        manifest: dict[str, Any] = {}
        corruption = None
        try:
            manifest = self.read_manifest()
            if manifest and not manifest_alone:
                self._stored("config.json")
        except CorruptFileError as error:
            corruption = error
        except StoreError:  # no configuration: the manifest is enough to list the run
            pass
        running = manifest.get("status") == RUNNING
        return RunState(manifest, corruption, running and is_held(self.folder))

    def is_finished(self) -> bool:
        """Return True if the run is finished and its files can be read."""
        return self.read().finished

    def has_begun(self) -> bool:
        """Return True if it has a manifest, whole or corrupt."""
        return (self.folder / "manifest.json").is_file()

    def is_free(self) -> bool:
        """Return True if nothing but what a command left that ended as it began the run is there.

        Such a command had taken the lock, and may have written the configuration, but not yet the
        manifest: a kill or a full disk can end it in between.
        """
        if not self.folder.exists():
            return True
        names = {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else {""}
        ours = {"config.json"} if WRITER in names else set()
        return all(name in ours or _OURS.fullmatch(name) for name in names)

    def require_whole(self) -> None:
        """Raise CorruptFileError if its manifest or its configuration cannot be read."""
        if (corruption := self.read().corruption) is not None:
            raise corruption

    def changed(self, *parts: str, removed: tuple[str, ...] = ()) -> list[str]:
        """Return the files of these `SEALED` parts that aren't what the run ended with.

        Files whose names end with one of `removed` may be absent or others.
        """
        sealed = self.try_manifest().get("files") or {}
        names = [name for name in sealed if not name.endswith(removed)]
        wanted = {name: sealed[name] for name in names if name.partition("/")[0] in parts}
        return changed_files(self.folder, wanted)

    def require_unchanged(self, *parts: str, removed: tuple[str, ...] = ()) -> None:
        """Raise StoreError if a file that `changed` looks at isn't what the run ended with."""
        if changed := self.changed(*parts, removed=removed):
            file = self.folder / changed[0]
            if not file.exists():
                raise StoreError(
                    f"{file} is missing: its run ended with it",
                    "put the file back, or train the run again with --fresh (this deletes it)",
                )
            raise StoreError(
                f"{file} was changed after its run ended, so that "
                "results would be attributed to the wrong model",
                "restore the file, or train the run again with --fresh (this deletes "
                "it); a changed model can be used from its own folder",
            )

    def _records(self, name: str) -> MetricsFile:
        def sealed() -> str | None:
            if self.lease is not None:
                return None
            return (self.try_manifest().get("files") or {}).get(name)

        return MetricsFile(self.folder / name, {"step": int}, self.lease, sealed)

    def note(self, **fields: Any) -> None:
        """Add or change fields of the manifest, atomically."""
        write_object(self.folder / "manifest.json", {**self.read_manifest(), **fields})

    def ask(self) -> None:
        """Note that the finished run was asked for again: it is now the latest, and of no sweep."""
        self.note(asked=now(), sweep=None)

    def prune(self, reason: str) -> None:
        """Note that a sweep ended it, unless it is finished, not begun, or being written."""
        if self.try_manifest():
            with suppress(BusyError), writer(self.folder):
                if not self.is_finished():
                    self.note(status=PRUNED, reason=reason)

    def clear(self) -> None:
        """Delete the run, which a kill leaves whole or gone, and what an earlier kill has left.

        Raises BusyError while a process writes it.
        """
        if not self.folder.is_dir():
            return
        aside = self.folder.with_name(f".{self.id}.old")
        with writer(self.folder), writer(self.folder, LAUNCHER):
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
        shutil.rmtree(aside)

    @contextmanager
    def recording(self, config: Mapping[str, Any], **origin: Unpack[Origin]) -> Iterator[Run]:
        """Yield the run with a lease of its directory, described and with a true status.

        Configuration and manifest are written first; the status follows the block's end. What is
        interrupted or fails can be resumed; an error before any work was done leaves nothing.
        Raises StoreError if the directory holds a run of another identity.
        """
        new = not self.has_begun()
        try:
            with self._described(config, origin) as leased:
                yield leased
        except (OutOfMemoryError, DivergedError):  # its settings are worth looking at
            raise
        except SageError:
            results = (self.metrics.path, self.checkpoints, self.model)
            if (
                new
                and self.try_manifest().get("status") == FAILED
                and not any(map(Path.exists, results))
            ):
                with suppress(OSError, StoreError):  # another process has taken over
                    self.clear()
            raise

    @contextmanager
    def _described(self, config: Mapping[str, Any], origin: Origin) -> Iterator[Run]:
        with writer(self.folder) as lease:
            before = self.read_manifest()
            recorded = before.get("identity")
            if self.planned is not None and before and recorded != self.planned:
                raise StoreError(
                    f"{self.folder} contains another run: its hash is {recorded}, not "
                    f"{self.planned}",
                    "move it elsewhere, or choose another folder with --runs",
                )
            began, spent_s = time.monotonic(), float(before.get("seconds", 0.0))
            write_json(self.folder / "config.json", config)
            self.note(
                id=self.id,
                identity=self.planned or recorded,
                result_version=RESULT_VERSION,
                created=before.get("created", now()),
                started=now(),
                status=RUNNING,
                reason=None,
                error=None,
                files=None,
                ends=None,
                **surroundings(),
                **origin,
            )

            def close(status: str, reason: str | None = None, error: str | None = None) -> None:
                lease.require()  # the status is now the business of the process that took over
                seconds = round(spent_s + time.monotonic() - began, 3)
                self.note(status=status, reason=reason, error=error, ended=now(), seconds=seconds)

            try:
                yield replace(self, lease=lease)
            except BaseException as error:
                with suppress(OSError, StoreError):  # a full disk must not hide its error
                    close(*_end(error))
                raise
            parts = [self.folder / name for name in SEALED]
            files = [path for part in parts for path in (part, *part.rglob("*"))]
            ends = {METRICS: self.metrics.end_hash()}
            self.note(files=sealed_hashes(self.folder, files), ends=ends)
            close(FINISHED)

    @property
    def _remedy(self) -> str:
        return f"put a whole copy of the file there, or `sage runs remove {self.id}`"

    def _stored(self, name: str) -> dict[str, Any]:
        try:
            return read_stored(self.folder / name, self._remedy)
        except FileNotFoundError:
            raise StoreError(f"{self.folder} is not a run: it has no {name}") from None


class Runs:
    """All runs below one root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, kind: str, label: str, identity: str) -> Run:
        """Return the run of that identity, whether it exists or not."""
        return Run(self.root / f"{kind}-{label}-{identity[:8]}", identity)

    def all(self) -> list[Run]:
        """Return every run, corrupt ones first, then the others from the oldest."""
        return [run for runs in self._read() for run in runs]

    def whole(self) -> list[Run]:
        """Return every run whose manifest and configuration can be read, from the oldest."""
        return self._read()[1]

    def _read(self) -> tuple[list[Run], list[Run]]:
        """Return the corrupt runs, with one warning each, and the others from the oldest."""
        folders = sorted(path.parent for path in self.root.glob("[!.]*/manifest.json"))
        corrupt, started = [], []
        for run in map(Run, folders):
            state = run.read()
            if state.corruption is None:
                started.append((str(state.manifest.get("started")), run))
            else:
                warn_of_corrupt_file(state.corruption)
                corrupt.append(run)
        return corrupt, [run for _, run in sorted(started, key=lambda pair: pair[0])]

    def children(self, run: Run) -> list[str]:
        """Return the ids of the runs whose parent is `run`, from the oldest."""
        whole = self.whole()
        return [child.id for child in whole if child.read_manifest().get("parent") == run.id]

    def latest(self) -> Run | None:
        """Return the finished run of no sweep that was started or asked for last."""
        read = [(run, run.read()) for run in self.whole()]
        candidates = [
            (_last_wanted(state), run)
            for run, state in read
            if state.finished and not state.manifest.get("sweep")
        ]
        return max(candidates, key=lambda pair: pair[0], default=("", None))[1]

    def find(self, name: str) -> Run:
        """Return the run called `name`: a folder, an id, or an unambiguous part of one.

        A prefix or suffix is preferred to a part in the middle. Raises StoreError.
        """
        if (run := run_of(Path(name))) is not None:
            return run
        if "/" in name or name.startswith("."):
            absent = "is not a run" if Path(name).exists() else "does not exist"
            raise StoreError(
                f"the folder {name} {absent}",
                "give a run's ID (`sage runs list`), or the folder of a run or a model",
            )
        runs = {run.id: run for run in self.all()}
        if Path(name).is_file() and not any(name in id_ for id_ in runs):
            raise StoreError(
                f"{name} is a file, and a run or a model is needed here",
                f"`sage samples import {name} --as NAME` stores its samples as the run NAME",
            )
        if not runs:
            raise StoreError(
                f"there is no run '{name}', nor any other in {self.root.resolve()}",
                "change to the folder that contains `runs`, or give it with --runs "
                "FOLDER or $SAGE_RUNS",
            )
        described = {id_: _described(run) for id_, run in runs.items()}.__getitem__
        return runs[full_name(name, runs, "run", f"in {self.root}", "`sage runs list`", described)]

    def check_childless(self, run: Run) -> None:
        """Raise StoreError if `run` is the parent of others."""
        if children := self.children(run):
            raise StoreError(
                f"{run.id} cannot be removed, because it is the parent of {', '.join(children)}",
                "remove these runs first",
            )

    def remove(self, run: Run) -> None:
        """Delete a run. Raises StoreError while a process writes it, or if it has children."""
        self.check_childless(run)
        sweep(self.root.glob(f".*-{EIGHT_DIGITS}.old"), now_s(self.root))  # not `.env.old`
        run.clear()


def run_of(folder: Path) -> Run | None:
    """Return the run whose directory `folder` is, or whose model's; None for any other folder."""
    places = (folder, folder.parent) if folder.name == "model" else (folder,)
    return next((run for run in map(Run, places) if run.has_begun()), None)


def _last_wanted(state: RunState) -> str:
    return max(str(state.manifest.get(field, "")) for field in ("started", "asked"))


def _described(run: Run) -> str:
    state = run.read()
    about = state.status, str(state.manifest.get("started", ""))[:16].replace("T", " ")
    return f"{run.id} ({', '.join(filter(None, about))})"
