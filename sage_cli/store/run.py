"""Run directories: identity, manifest, status, and finding one again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from sage_cli.errors import BusyError, StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import TornError, name_once, read_object
from sage_cli.store.lease import Lease
from sage_cli.store.lock import LAUNCHER, is_held, writer
from sage_cli.store.manifest import FINISHED, INTERRUPTED, PRUNED, RUNNING, Origin
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.names import full_name
from sage_cli.store.recording import now, recorded

TORN = "torn"
"""Its manifest or its configuration can't be read. Never written; see `Run.torn`."""
ANEW = ".anew"
"""The folder below the folder of runs in which runs are trained anew."""
SEAL = "sealed.json"
"""In a checkpoint whose files are all on the disk."""


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
        return MetricsFile(self.folder / "metrics.jsonl", {"step": int}, self.lease)

    @property
    def rollouts(self) -> MetricsFile:
        """The run's rollouts.jsonl: completions that RL drew, with their verdicts."""
        return MetricsFile(self.folder / "rollouts.jsonl", {"step": int}, self.lease)

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
        return self._read("manifest.json") if self.begun else {}

    @property
    def known(self) -> dict[str, Any]:
        """The manifest as far as it can be read: empty where it is torn."""
        try:
            return self.manifest
        except TornError:
            return {}

    @property
    def status(self) -> str:
        """What became of the run; one that was killed says running, and nobody holds it."""
        if self.torn is not None:
            return TORN
        status = str(self.manifest.get("status"))
        return INTERRUPTED if status == RUNNING and not is_held(self.folder) else status

    @property
    def finished(self) -> bool:
        """Whether the run came to its end, and its files can be read."""
        return self.status == FINISHED

    @property
    def begun(self) -> bool:
        """Whether it has a manifest, whole or torn."""
        return (self.folder / "manifest.json").is_file()

    @property
    def torn(self) -> TornError | None:
        """What is wrong with its manifest or its configuration; None where both can be read."""
        try:
            _ = self.manifest, self._read("config.json") if self.begun else None
        except TornError as error:
            return error
        except StoreError:  # a manifest alone is enough to know the run by
            return None
        return None

    def require_whole(self) -> None:
        """Raise TornError where its manifest or its configuration can't be read."""
        if (torn := self.torn) is not None:
            raise torn

    def note(self, **fields: Any) -> None:
        """Add or change fields of the manifest (`store/manifest.py`), atomically."""
        write_json(self.folder / "manifest.json", {**self.manifest, **fields})

    def ask(self) -> None:
        """Note that a finished run was asked for again: the latest, and no sweep's any more."""
        self.note(asked=now(), sweep=None)

    def prune(self, reason: str) -> None:
        """Note that a sweep ended it, unless it has finished, wasn't begun, or somebody writes."""
        if not self.known:
            return
        with suppress(BusyError), writer(self.folder):
            if not self.finished:
                self.note(status=PRUNED, reason=reason)

    @property
    def anew(self) -> Run:
        """Where it is trained anew: under the same name, which checkpoints and mirrors are told."""
        return Run(self.folder.parent / ANEW / self.id, self.planned)

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

    def recording(
        self, config: Mapping[str, Any], **origin: Unpack[Origin]
    ) -> AbstractContextManager[Run]:
        """Yield the run with a lease of its directory, described and with a true status.

        Configuration and manifest are written first; the status follows the block's end.

        An interruption or failure leaves everything that is needed to take the run up again; a
        refusal before anything was done leaves nothing. Raises StoreError where the directory holds
        a run of another identity.
        """
        return recorded(self, config, origin)

    @property
    def _remedy(self) -> str:
        """What to do where one of its files is torn."""
        if self.folder.parent.name == ANEW:
            return "type its command again with --fresh"
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
        """The run of that identity, whether it exists or not."""
        return Run(self.root / f"{kind}-{label}-{identity[:8]}", identity)

    def all(self) -> list[Run]:
        """Every run, oldest first; those that can't be dated because they are torn come first."""
        torn, whole = self._read()
        return [*torn, *whole]

    def whole(self) -> list[Run]:
        """Every run whose manifest and configuration can be read, oldest first."""
        return self._read()[1]

    def _read(self) -> tuple[list[Run], list[Run]]:
        """The torn runs, each of which is named once, and the others, oldest first."""
        torn, whole = [], []
        for folder in sorted(path.parent for path in self.root.glob("[!.]*/manifest.json")):
            run = Run(folder)
            if (error := run.torn) is None:
                whole.append(run)
            else:
                name_once(error)
                torn.append(run)
        return torn, sorted(whole, key=lambda run: str(run.manifest.get("started")))

    def children(self, run: Run) -> list[str]:
        """The ids of the runs that are known to have grown from `run`, oldest first."""
        return [other.id for other in self.whole() if other.manifest.get("parent") == run.id]

    def latest(self) -> Run | None:
        """The finished run that was started or asked for last and isn't a sweep's."""
        finished = [r for r in self.whole() if r.finished and not r.manifest.get("sweep")]
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
        told = {id_: _told(run) for id_, run in runs.items()}.__getitem__
        return runs[full_name(name, runs, "run", f"in {self.root}", "`sage runs list`", told)]

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


def _told(run: Run) -> str:
    """A run's id, which names its method, with what became of it and when."""
    started = str(run.known.get("started", ""))[:16].replace("T", " ")
    return f"{run.id} ({', '.join(filter(None, (run.status, started)))})"


def _last_asked(run: Run) -> str:
    return max(str(run.manifest.get(field, "")) for field in ("started", "asked"))
