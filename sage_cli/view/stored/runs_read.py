"""Facts of all runs below a folder, read again only where a file has changed; their colours."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.reports.figures.figure import COLOURS
from sage_cli.store.runs.evaluations import FOLDER
from sage_cli.store.runs.manifest import RUNNING
from sage_cli.store.runs.run import Run
from sage_cli.store.runs.run_facts import RunFacts

T = TypeVar("T")


class Look(TypedDict):
    """The colour of a policy and its dashes, the same on every page.

    `colour` is a place in the palette, null for an initial policy, which is drawn in ink; `dash` a
    place among the dashes, which tell apart policies of one colour.
    """

    colour: int | None
    dash: int


class Remembered(Generic[T]):
    """The latest results by key, whose sizes sum to at most `room`; one is kept in any case.

    A key names all that decides the result, such as the sizes and times of the files it is read
    from, so nothing that is kept can be out of date.
    """

    def __init__(self, room: int, size_of: Callable[[T], int] = lambda _: 1) -> None:
        self._room, self._size_of = room, size_of
        self._results: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `key`, made by `make` if it is not kept.

        Threads that ask for one key at the same time may both make it.
        """
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        made = make()
        with self._lock:
            self._results[key] = made
            self._results.move_to_end(key)
            while len(self._results) > 1 and self._size > self._room:
                self._results.popitem(last=False)
        return made

    @property
    def _size(self) -> int:
        return sum(map(self._size_of, self._results.values()))


Stamp = tuple[tuple[int, int] | None, ...]
_READ = ("manifest.json", "config.json", "metrics.jsonl", FOLDER)
INITIAL = "sft"
"""The kind of the runs whose policies are drawn in ink: those that RL starts from."""


class _Read(NamedTuple):
    """A run's facts, with the stamp of the files that they were read from."""

    stamp: Stamp
    facts: RunFacts


def stamp_of(paths: Sequence[Path]) -> Stamp:
    """Return size and time (ns) of each path, None for one that is not there."""
    return tuple(map(_stamp, paths))


class RunsRead:
    """The runs below `root`, which may grow and vanish while they are looked at.

    With `once` they are read a single time, as for a page that is written at once.
    """

    def __init__(self, root: Path, *, once: bool = False) -> None:
        self.root, self._once = root, once
        self._known: dict[str, _Read] = {}
        self._lock = Lock()

    def all(self) -> list[RunFacts]:
        """Return the facts of every run from the oldest, those of a torn one as far as they go."""
        with self._lock:
            if not (self._once and self._known):
                self._read()
            return [read.facts for read in sorted(self._known.values(), key=_age)]

    def _read(self) -> None:
        known, self._known = self._known, {}
        for id_ in _ids(self.root):
            read = _current(Run(self.root / id_), known.get(id_))
            if read is not None:
                self._known[id_] = read

    def find(self, id_: str) -> RunFacts:
        """Return the facts of the run of that id. Raises StoreError if there is none (any more)."""
        with self._lock:
            known = self._known.get(id_)
        read = _current(Run(self.root / id_), known) if is_one_part(id_) else None
        if read is None:
            raise StoreError(
                f"there is no run '{id_}' in {self.root.resolve()}",
                "it may have been removed while it was shown; the table has those that are there",
            )
        return read.facts

    def looks(self) -> dict[str, Look]:
        """Return the look of every run."""
        return looks_of(self.all())


def looks_of(every: Sequence[RunFacts]) -> dict[str, Look]:
    """Return the look of each run, oldest first, so that later runs do not change it."""
    trained, initial = 0, 0
    looks: dict[str, Look] = {}
    for facts in every:
        if facts.about.get("kind") == INITIAL:
            looks[facts.run.id] = {"colour": None, "dash": initial}
            initial += 1
        else:
            dash, colour = divmod(trained, len(COLOURS))
            looks[facts.run.id] = {"colour": colour, "dash": dash}
            trained += 1
    return looks


def look_of(policy: str, looks: dict[str, Look]) -> Look:
    """Return the look of a run, or of `RUN@step`: its run's colour with other dashes."""
    name, at, step = policy.partition("@")
    look = looks.get(name, {"colour": None, "dash": 0})
    if not at:
        return look
    return {"colour": look["colour"], "dash": look["dash"] + 1 + int(step or 0) % 7}


def _ids(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []


def _current(run: Run, known: _Read | None) -> _Read | None:
    """Return the facts with their stamp, the known ones if no file has changed; None for no run.

    A run that says that it is running is read each time, since its process may have ended.
    """
    stamp = stamp_of([run.folder / name for name in _READ])
    if stamp[0] is None:
        return None
    if known is not None and known.stamp == stamp and known.facts.about["status"] != RUNNING:
        return known
    try:
        return _Read(stamp, _facts(run))
    except (StoreError, OSError):  # removed, or torn, between two looks at its files
        return None


def _facts(run: Run) -> RunFacts:
    """Return a run's facts; what is whole, as nearly all are, is read once."""
    try:
        return RunFacts.of(run)
    except StoreError:
        return RunFacts.listed(run)


def _age(read: _Read) -> tuple[str, str]:
    """Return what runs are sorted by: their first start, which resuming does not change."""
    about = read.facts.about
    return str(about.get("created") or about.get("started") or ""), read.facts.run.id


def is_one_part(name: str) -> bool:
    """Return True for the name of an entry of a folder, which leads to nowhere else."""
    return bool(name) and Path(name).name == name and not name.startswith(".") and "\0" not in name


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
