"""Runs, their looks, and their policies with the settings that they were measured under.

What is read is kept in memory while no file of it has changed.
"""

from __future__ import annotations

import gc
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from sys import intern
from threading import Lock
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from typing_extensions import TypedDict

from sage_cli.config.consent import without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import SageError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import stored_grades
from sage_cli.models.policy import Policy, checkpoint_steps, named_policy, stored_settings
from sage_cli.problems.load import benchmark_names, load_training_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import shown_name
from sage_cli.reports.figures.legend import COLOURS
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.store.annotations import GradeStore
from sage_cli.store.evaluations import COUNTED, EVALUATIONS, evaluations
from sage_cli.store.json_files import warn_once
from sage_cli.store.result_hash import key_of
from sage_cli.store.run import RUNNING, Run, Runs
from sage_cli.store.run_facts import RunFacts
from sage_cli.store.sample_set import SampleSet

T = TypeVar("T")
Stamp = tuple[tuple[int, int] | None, ...]
_READ = ("manifest.json", "config.json", "metrics.jsonl", EVALUATIONS)
_SHOWN = ("step", "of", "reward")
"""The figures that the table always has, beside each pass@k."""
SLOW_LOOK_S = 0.5
"""Seconds above which a look at the files of all runs isn't repeated at once."""
_INITIAL = "sft"
"""The kind of the runs whose policies are drawn in ink: those that RL starts from."""
_SETTINGS = {
    "samples": "evaluation",
    "seeds": "evaluation",
    "temperature": "sampling",
    "grading": "grading",
}
"""A recorded figure that says how was measured, and the section of its setting."""


class LineStyle(TypedDict):
    """The colour of a policy and its dashes, the same on every page.

    `colour` is a place in the palette, null for an initial policy, which is drawn in ink; `dash` a
    place among the dashes, which tell apart policies of one colour.
    """

    colour: int | None
    dash: int


class LruCache(Generic[T]):
    """Cache of the most recent results by key, bounded by the total size `room`; it keeps at least
    one.

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
        # Outside the lock: one slow report must not hold up every other request.
        result = make()
        with self._lock:
            self._results[key] = result
            self._results.move_to_end(key)
            # One result stays even if it is larger than the room, or a page of it would compute it
            # for every request.
            while len(self._results) > 1 and self._size > self._room:
                self._results.popitem(last=False)
        return result

    @property
    def _size(self) -> int:
        return sum(map(self._size_of, self._results.values()))


class _Read(NamedTuple):
    """A run's facts, with the stamp of the files that they were read from.

    There may be 20,000: of the figures only those of columns are kept, of the others the `names`.
    """

    stamp: Stamp
    facts: RunFacts
    names: frozenset[str]


def stamp_of(paths: Sequence[Path | str]) -> Stamp:
    """Return size and time (ns) of each path, None for one that is not there."""
    return tuple(map(_stamp, paths))


def _stamp(path: Path | str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116
        return status.st_size, status.st_mtime_ns
    return None


class RunsRead:
    """The runs below `root`, which may grow and vanish while they are looked at.

    With `once` they are read a single time, as for a page that is written at once.
    """

    def __init__(self, root: Path, *, once: bool = False) -> None:
        self.root, self._once = root, once
        self._known: dict[str, _Read] = {}
        self._facts: list[RunFacts] = []
        self._version, self._look_s, self._looked_at = 0, 0.0, 0.0
        self._named = lru_cache(_named)
        self._lock = Lock()

    @property
    def figures(self) -> set[str]:
        """Return the names of the figures of all runs, as they were read last."""
        return set().union(*{read.names for read in self._known.values()})

    def all(self, columns: Collection[str] = ()) -> list[RunFacts]:
        """Return the facts of every run from the oldest, those of a corrupt one as far as they go.

        Of the figures those of `columns` are among them, and those that the table always has. A
        reading that is under way in another thread is waited for, and not repeated.
        """
        return self.versioned(columns)[1]

    def versioned(self, columns: Collection[str] = ()) -> tuple[int, list[RunFacts]]:
        """Return what `all` does, after a number that grows whenever a run has changed."""
        # Read before the lock is taken: a request that had to wait for another's reading has fresh
        # facts by then.
        is_being_read = self._lock.locked()
        with self._lock:
            if columns or not (self._known and (self._once or is_being_read or self._is_fresh)):
                self._read(columns)
            return self._version, list(self._facts)

    @property
    def _is_fresh(self) -> bool:
        """Return True for so long after a slow look at the files as it took.

        Many clients of many runs would otherwise have them looked at without pause.
        """
        return self._look_s > SLOW_LOOK_S and monotonic() - self._looked_at < self._look_s

    def _read(self, columns: Collection[str]) -> None:
        earlier, known, began = self._known, {}, monotonic()
        # Reading 20,000 runs allocates millions of objects; the collector would walk all of them
        # again and again and find nothing to free.
        gc.disable()  # all that is read is kept
        try:
            for id_ in list(earlier) if self._once and earlier else _ids(self.root):
                read = self._current(Run(self.root / id_), earlier.get(id_), columns)
                if read is not None:
                    known[id_] = read
        finally:
            gc.enable()
        is_same = known.keys() == earlier.keys() and all(
            known[id_] is earlier[id_] for id_ in known
        )
        self._version += not is_same
        self._known, self._looked_at = known, monotonic()
        self._facts = [read.facts for read in sorted(known.values(), key=_age)]
        self._look_s = self._looked_at - began

    def _current(self, run: Run, known: _Read | None, columns: Collection[str]) -> _Read | None:
        """Return the facts, the known ones if no file has changed; None for no run.

        A run that says that it is running is read each time, since its process may have ended.
        """
        folder = str(run.folder)
        stamp = stamp_of([f"{folder}/{name}" for name in _READ])
        if stamp[0] is None:
            return None
        if known is not None:
            kept = known.facts.figures
            is_asked = any(name in known.names and name not in kept for name in columns)
            is_running = known.facts.about["status"] == RUNNING
            if known.stamp == stamp and not is_asked and not is_running:
                return known
            columns = {*columns, *kept}
        try:
            facts = RunFacts.listed(run)
        except (StoreError, OSError):  # removed, or corrupt, between two looks at its files
            return None
        names, shown = self._named(tuple(facts.figures))
        asked = [name for name in columns if name in names]
        figures = {name: facts.figures[name] for name in (*shown, *asked)}
        trimmed = RunFacts(run, facts.about, figures)
        vars(trimmed)["sections"] = facts.sections  # read once
        return _Read(stamp, trimmed, names)

    def find(self, id_: str) -> RunFacts:
        """Return the facts of the run of that id. Raises StoreError if there is none (any more)."""
        run = Run(self.root / id_)
        with suppress(StoreError, OSError):  # removed meanwhile
            if is_one_part(id_) and run.has_begun():
                return RunFacts.listed(run)
        raise StoreError(
            f"there is no run '{id_}' in {self.root.resolve()}",
            "it may have been removed while it was shown; the table lists the existing ones",
        )

    def looks(self) -> dict[str, LineStyle]:
        """Return the look of every run."""
        return looks_of(self.all())


def looks_of(runs: Sequence[RunFacts]) -> dict[str, LineStyle]:
    """Return the look of each run, oldest first, so that later runs do not change it."""
    trained, initial = 0, 0
    looks: dict[str, LineStyle] = {}
    for facts in runs:
        if facts.about.get("kind") == _INITIAL:
            looks[facts.run.id] = {"colour": None, "dash": initial}
            initial += 1
        else:
            dash, colour = divmod(trained, len(COLOURS))
            looks[facts.run.id] = {"colour": colour, "dash": dash}
            trained += 1
    return looks


def look_of(policy: str, looks: dict[str, LineStyle]) -> LineStyle:
    """Return the look of a run, or of `RUN@step`: its run's colour with other dashes."""
    name, separator, step = policy.partition("@")
    look = looks.get(name, {"colour": None, "dash": 0})
    if not separator:
        return look
    return {"colour": look["colour"], "dash": look["dash"] + 1 + int(step or 0) % 7}


def _named(figures: tuple[str, ...]) -> tuple[frozenset[str], list[str]]:
    """Return the names of a run's figures, and those of them that the table always shows."""
    names = list(map(intern, figures))
    return frozenset(names), [n for n in names if n in _SHOWN or n.startswith("pass@")]


def _ids(root: Path) -> list[str]:
    with suppress(OSError), os.scandir(root) as entries:
        return [entry.name for entry in entries if not entry.name.startswith(".")]
    return []


def _age(read: _Read) -> tuple[str, str]:
    """Return what runs are sorted by: their first start, which resuming does not change."""
    about = read.facts.about
    return str(about.get("created") or about.get("started") or ""), read.facts.run.id


def is_one_part(name: str) -> bool:
    """Return True for the name of an entry of a folder, which leads to nowhere else."""
    return bool(name) and Path(name).name == name and not name.startswith(".") and "\0" not in name


@dataclass(frozen=True)
class MeasuredPolicy:
    """A policy, a benchmark, and the settings of the measurement that its run recorded."""

    policy: Policy
    benchmark: Benchmark
    config: SageConfig
    root: Path

    @property
    def label(self) -> str:
        """Return the policy's name."""
        return self.policy.label

    @property
    def samples(self) -> PolicySamples:
        """Return the policy's sample sets under these settings."""
        return PolicySamples.from_config(self.policy, self.config, self.root)

    @property
    def grader_key(self) -> str:
        """Return the name of the folder of its grades in each sample set."""
        with self.benchmark.grader(self.config.grading, self.config.prompt) as grader:
            return key_of(grader.identity.mapping())

    def stored(self) -> Iterator[tuple[SampleSet, GradeStore]]:
        """Yield sample set and grades of each evaluation seed; nothing is written."""
        return stored_grades(self.samples, self.benchmark, self.config)


class Policies:
    """The policies of the runs below a folder, and what they were measured on."""

    def __init__(self, runs: RunsRead) -> None:
        self.runs = runs
        self._specs: LruCache[dict[str, SageConfig]] = LruCache(512)
        self._benchmarks: LruCache[Benchmark] = LruCache(
            200_000, lambda benchmark: len(benchmark.problems)
        )
        self._trained_on: LruCache[list[Problem]] = LruCache(200_000, len)

    def training_problems(self, run: Run) -> list[Problem]:
        """Return the problems that a run trained on, none if they cannot be read here."""
        try:
            data = load(stored=without_consent(stored_settings(run))).config.data
            key = (data.model_dump_json(), stamp_of([Path(data.rl.name)]))
            return self._trained_on.get(key, lambda: load_training_problems(data))
        except (SageError, OSError):
            return []

    def benchmarks(self, name: str) -> list[str]:
        """Return the benchmarks that a policy's run was measured on, or else is configured for."""
        return list(self._specs_of(self.runs.find(name.partition("@")[0]).run))

    def measured(self, name: str, benchmark: str) -> MeasuredPolicy:
        """Return the policy called `name` on a benchmark.

        Raises StoreError for a policy that is not there, or for which the benchmark is unknown.
        """
        run = self.runs.find(name.partition("@")[0]).run
        specs = self._specs_of(run)
        if benchmark not in specs:
            raise StoreError(
                f"{run.id} was not measured on {benchmark}",
                f"`sage passk {run.id} --benchmark {benchmark}` measures it",
            )
        config = specs[benchmark]
        policy = self.policy(name)
        return MeasuredPolicy(policy, self._benchmark(config), config, self.runs.root)

    def policy(self, name: str) -> Policy:
        """Return the policy called RUN or RUN@step; no other run is read.

        Raises StoreError for a run that is not finished, and for a checkpoint that it lacks.
        """
        id_, separator, step = name.partition("@")
        run = self.runs.find(id_).run
        return named_policy(f"{run.folder.resolve()}{separator}{step}", Runs(self.runs.root))

    def _specs_of(self, run: Run) -> dict[str, SageConfig]:
        folder = run.folder / EVALUATIONS
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        key = (run.id, stamp_of([run.folder / "config.json", *files]))
        return self._specs.get(key, lambda: _specs(run))

    def _benchmark(self, config: SageConfig) -> Benchmark:
        name = config.evaluation.benchmark
        key = (
            name,
            stamp_of([Path(name)]),
            config.data.model_dump_json(),
            config.evaluation.fields.model_dump_json(),
            config.evaluation.limit,
            config.grading.judge,
        )
        sections = config.evaluation, config.data, config.grading.judge
        return self._benchmarks.get(key, lambda: load_benchmarks(*sections)[0])


def policies_of(run: Run) -> list[str]:
    """Return the names of a run's policies: its checkpoints as RUN@step, and its end."""
    names = [f"{run.id}@{step}" for step in checkpoint_steps(run)]
    return [*names, run.id] if run.is_finished() else names


def _specs(run: Run) -> dict[str, SageConfig]:
    """Return benchmark -> the settings of the measurement that the run recorded, largest first.

    Without a record the run's own settings, a benchmark each.
    """
    stored = without_consent(stored_settings(run))
    config_by_benchmark: dict[str, SageConfig] = {}
    for file, figures in sorted(evaluations(run).items(), key=lambda item: -_completions(item[1])):
        flags: dict[str, dict[str, object]] = {
            "evaluation": {"benchmark": str(figures.get("benchmark", file))}
        }
        for name, section in _SETTINGS.items():
            if name in figures:
                setting = "mode" if name == "grading" else name
                if figures[name] == IMPORTED_JUDGE:  # the stored judge gave it
                    continue
                flags.setdefault(section, {})[setting] = figures[name]
        try:
            config = load(flags=flags, stored=stored).config
        except SageError as error:  # another version's, a file that is gone, or edited
            warn_once(
                f"the measurement {run.id}/{EVALUATIONS}/{file}.json isn't shown: {error.cause}"
            )
            continue
        config_by_benchmark[config.evaluation.benchmark] = config
    if config_by_benchmark:
        return config_by_benchmark
    config = load(stored=stored).config
    for name in benchmark_names(config.evaluation.benchmark):
        narrowed = load(flags={"evaluation": {"benchmark": name}}, stored=stored).config
        config_by_benchmark[shown_name(name, narrowed.data)] = narrowed
    return config_by_benchmark


def _completions(figures: Mapping[str, object]) -> int:
    counted = (figures.get(name, 1) for name in COUNTED)
    return prod(count for count in counted if isinstance(count, int))
