"""Run directories: identity, manifest, status, and finding one again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from sage_cli.errors import BusyError, StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import TornError, name_once, read_object
from sage_cli.store.lease import Lease
from sage_cli.store.lock import LAUNCHER, is_held, writer
from sage_cli.store.runs.manifest import FINISHED, INTERRUPTED, PRUNED, RUNNING, Origin
from sage_cli.store.runs.metrics_file import MetricsFile
from sage_cli.store.runs.names import full_name
from sage_cli.store.runs.recording import now, recorded

if TYPE_CHECKING:  # they import pyarrow, which a list of runs does not need
    from sage_cli.store.runs.training_completions import TrainingCompletions
    from sage_cli.store.runs.training_ledger import TrainingLedger

TORN = "torn"
"""The status of a run whose manifest or configuration cannot be read. It is never written."""
STAGED = ".staged"
"""The folder below the folder of runs in which replacements are trained."""
SEAL = "sealed.json"
"""The mark of a checkpoint whose files are all on disk."""


@dataclass(frozen=True)
class Run:
    """A directory `runs/<id>/` with config.json, manifest.json, metrics.jsonl and model/.

    `planned` is the identity that a recipe gives it, known before the directory exists; `lease`
    is held by this process while `recording` lasts.
    """

    folder: Path
    planned: str | None = field(default=None, compare=False, repr=False)
    lease: Lease | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The directory's name: kind, label and the first eight digits of the identity."""
        return self.folder.name

    @property
    def identity(self) -> str | None:
        """The hash of what determines its result; None for a run that no recipe names."""
        return self.planned or self.manifest.get("identity")

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
        return MetricsFile(self.folder / "metrics.jsonl", {"step": int}, self.lease)

    @property
    def rollouts(self) -> MetricsFile:
        """The run's rollouts.jsonl: some completions of RL with their grades."""
        return MetricsFile(self.folder / "rollouts.jsonl", {"step": int}, self.lease)

    @property
    def ledger(self) -> TrainingLedger:
        """Return the run's `ledger/`: how each prompt of each step of RL was answered."""
        from sage_cli.store.runs.training_ledger import TrainingLedger

        return TrainingLedger(self.folder / "ledger", self.lease)

    def completions(self, process: int = 0) -> TrainingCompletions:
        """Return the run's `completions/`, which all processes read and each writes its own of."""
        from sage_cli.store.runs.training_completions import TrainingCompletions

        return TrainingCompletions(self.folder / "completions", self.lease, process)

    @property
    def guide(self) -> Path:
        """The token report of its guide (`sage samples tokens --keep`)."""
        return self.folder / "guide.json"

    @property
    def config(self) -> dict[str, Any]:
        """Its resolved configuration."""
        return self._read("config.json")

    @property
    def manifest(self) -> dict[str, Any]:
        """Versions, commit, host, parent, status, timings; empty before the run is begun.

        Raises TornError if it is torn or of another layout.
        """
        if not self.begun:
            return {}
        manifest = self._read("manifest.json")
        if "status" not in manifest:
            file = self.folder / "manifest.json"
            raise TornError(f"{file} has no status: it is of another layout", self._remedy)
        return manifest

    @property
    def known(self) -> dict[str, Any]:
        """The manifest, or an empty one if it cannot be read."""
        try:
            return self.manifest
        except TornError:
            return {}

    @property
    def status(self) -> str:
        """Its status; a run that says `running` and that no process writes was interrupted."""
        return TORN if self.torn is not None else self.status_in(self.manifest)

    def status_in(self, manifest: Mapping[str, Any]) -> str:
        """Return the true status of a whole run with this manifest."""
        status = str(manifest.get("status"))
        return INTERRUPTED if status == RUNNING and not is_held(self.folder) else status

    @property
    def finished(self) -> bool:
        """Return True if the run is finished and its files can be read."""
        return self.status == FINISHED

    @property
    def begun(self) -> bool:
        """Return True if it has a manifest, whole or torn."""
        return (self.folder / "manifest.json").is_file()

    @property
    def torn(self) -> TornError | None:
        """The error of its manifest or its configuration; None if both can be read."""
        try:
            _ = self.manifest, self._read("config.json") if self.begun else None
        except TornError as error:
            return error
        except StoreError:  # no configuration: the manifest is enough to list the run
            return None
        return None

    def require_whole(self) -> None:
        """Raise TornError if its manifest or its configuration cannot be read."""
        if (torn := self.torn) is not None:
            raise torn

    def note(self, **fields: Any) -> None:
        """Add or change fields of the manifest, atomically."""
        write_json(self.folder / "manifest.json", {**self.manifest, **fields})

    def ask(self) -> None:
        """Note that the finished run was asked for again: it is now the latest, and of no sweep."""
        self.note(asked=now(), sweep=None)

    def prune(self, reason: str) -> None:
        """Note that a sweep ended it, unless it is finished, not begun, or being written."""
        if self.known:
            with suppress(BusyError), writer(self.folder):
                if not self.finished:
                    self.note(status=PRUNED, reason=reason)

    @property
    def replacement(self) -> Run:
        """The run that `--fresh` trains in its place, of the same name for checkpoints, mirrors."""
        return Run(self.folder.parent / STAGED / self.id, self.planned)

    def clear(self) -> None:
        """Delete the run. Raises BusyError while a process writes it."""
        if self.folder.is_dir():
            shutil.rmtree(self.set_aside())

    def set_aside(self) -> Path:
        """Rename the folder, so that a kill leaves a run whole or gone, and return its new path.

        Raises BusyError while a process writes the run. Leftovers of an earlier kill are deleted.
        """
        aside = self.folder.with_name(f".{self.id}.old")
        with writer(self.folder), writer(self.folder, LAUNCHER):
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
        return aside

    def recording(
        self, config: Mapping[str, Any], **origin: Unpack[Origin]
    ) -> AbstractContextManager[Run]:
        """Yield the run with a lease of its directory, described and with a true status.

        Configuration and manifest are written first; the status follows the block's end. What is
        interrupted or fails can be resumed; an error before any work was done leaves nothing.
        Raises StoreError if the directory holds a run of another identity.
        """
        return recorded(self, config, origin)

    @property
    def _remedy(self) -> str:
        if self.folder.parent.name == STAGED:
            return "run its command again with --fresh"
        return f"put a whole copy of the file there, or `sage runs remove {self.id}`"

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return read_object(self.folder / name, self._remedy)
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
        """Return every run, torn ones first, then the others from the oldest."""
        return [run for runs in self._read() for run in runs]

    def whole(self) -> list[Run]:
        """Return every run whose manifest and configuration can be read, from the oldest."""
        return self._read()[1]

    def _read(self) -> tuple[list[Run], list[Run]]:
        """Return the torn runs, with one warning each, and the others from the oldest."""
        folders = sorted(path.parent for path in self.root.glob("[!.]*/manifest.json"))
        read = [(run, run.torn) for run in map(Run, folders)]
        for error in filter(None, (error for _, error in read)):
            name_once(error)
        torn, whole = ([run for run, e in read if (e is None) is ok] for ok in (False, True))
        return torn, sorted(whole, key=lambda run: str(run.manifest.get("started")))

    def children(self, run: Run) -> list[str]:
        """Return the ids of the runs whose parent is `run`, from the oldest."""
        return [other.id for other in self.whole() if other.manifest.get("parent") == run.id]

    def latest(self) -> Run | None:
        """Return the finished run of no sweep that was started or asked for last."""
        own = [run for run in self.whole() if run.finished and not run.manifest.get("sweep")]
        return max(own, key=_last_wanted, default=None)

    def find(self, name: str) -> Run:
        """Return the run called `name`: a folder, an id, or an unambiguous part of one.

        A prefix or suffix is preferred to a part in the middle. Raises StoreError.
        """
        if (run := run_of(Path(name))) is not None:
            return run
        runs = {run.id: run for run in self.all()}
        if not runs:
            raise StoreError(
                f"there is no run '{name}', nor any other in {self.root.resolve()}",
                "go to the folder with `runs`, or name it by --runs FOLDER or $SAGE_RUNS",
            )
        described = {id_: _described(run) for id_, run in runs.items()}.__getitem__
        return runs[full_name(name, runs, "run", f"in {self.root}", "`sage runs list`", described)]

    def refuse_parent(self, run: Run) -> None:
        """Raise StoreError if `run` is the parent of others."""
        if children := self.children(run):
            named = ", ".join(children)
            raise StoreError(f"{run.id} is the parent of {named}", "remove those first")

    def remove(self, run: Run) -> None:
        """Delete a run. Raises StoreError while a process writes it, or if it has children."""
        self.refuse_parent(run)
        run.replacement.clear()
        run.clear()


def run_of(folder: Path) -> Run | None:
    """Return the run whose directory `folder` is, or whose model's; None for any other folder."""
    places = (folder, folder.parent) if folder.name == "model" else (folder,)
    return next((run for run in map(Run, places) if run.begun), None)


def _last_wanted(run: Run) -> str:
    return max(str(run.manifest.get(field, "")) for field in ("started", "asked"))


def _described(run: Run) -> str:
    about = run.status, str(run.known.get("started", ""))[:16].replace("T", " ")
    return f"{run.id} ({', '.join(filter(None, about))})"
