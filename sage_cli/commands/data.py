"""`sage data`: the registered sources, the problems of one, the overlap of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.errors import SageError
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.load import load_problems, read_problems
from sage_cli.problems.overlap import Match, duplicates, overlap
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import Entry, entries, find, require_known_revisions
from sage_cli.problems.sources import local_files
from sage_cli.settings.sections.data import DataSection, FieldsSection


@dataclass(frozen=True)
class Listed:
    """A registered source and the number of its problems, if a local copy or generator exists.

    `problems` is None for a source of the Hub, and for a broken copy, which `trouble` explains.
    `revision` is what a data set is pinned to on the Hub, `newest` for one that isn't.
    """

    name: str
    title: str
    use: str
    where: str
    problems: int | None
    expected: int | None
    repeated: int | None
    revision: str | None
    trouble: str | None = None


@dataclass(frozen=True)
class Shown:
    """A source's problems, the groups that repeat a question, and the columns of its rows."""

    problems: Sequence[Problem]
    repeated: Sequence[Sequence[Problem]]
    columns: Sequence[str]
    origins: Sequence[str]


@dataclass(frozen=True)
class Overlap:
    """The overlap of training problems and a benchmark, whose problems are counted once each."""

    train_problems: int
    bench_problems: int
    same: int
    similar: int
    matches: Sequence[Match]


def list_sources(data: DataSection) -> list[Listed]:
    """Return every registered source; only local copies and generators are read."""
    require_known_revisions(data.revisions)
    return [_listed(entry, data) for entry in entries().values()]


def show_source(name: str, data: DataSection, fields: FieldsSection) -> Shown:
    """Return the problems of one source. Raises DataError."""
    problems = read_problems(name, data, fields)
    return Shown(
        problems,
        duplicates(problems),
        sorted({column for problem in problems for column in problem.meta} - {"origin"}),
        list(dict.fromkeys(str(p.meta.get("origin", "generated")) for p in problems)),
    )


def compare_sources(train: str, bench: str, data: DataSection, fields: FieldsSection) -> Overlap:
    """The problems of `bench` that a model trained on `train` has seen."""
    trained = load_problems(train, data, fields)
    asked = load_problems(bench, data, fields)
    matches = overlap(trained, asked)
    same = {match.bench.id for match in matches if match.same}
    similar = {match.bench.id for match in matches} - same
    return Overlap(len(trained), len(asked), len(same), len(similar), matches)


def _listed(entry: Entry, data: DataSection) -> Listed:
    where = _where(entry, data)
    problems: list[Problem] | None = None
    trouble = None
    if where != "Hub":
        try:
            problems = read_problems(entry.name, data)
        except SageError as error:
            trouble = error.cause
    return Listed(
        name=entry.name,
        title=entry.title,
        use="training" if entry.training else "evaluation",
        where=where,
        problems=None if problems is None else len(problems),
        expected=entry.count if isinstance(entry, DataSet | Group) else None,
        repeated=None if problems is None else sum(len(g) - 1 for g in duplicates(problems)),
        revision=_revision(entry, data),
        trouble=trouble,
    )


def _revision(entry: Entry, data: DataSection) -> str | None:
    if not isinstance(entry, DataSet):
        return None
    return entry.pinned(data.revisions).revision or "newest"


def _where(entry: Entry, data: DataSection) -> str:
    """Return `local`, `Hub` or `generated`; a group is local if all its members are."""
    if isinstance(entry, DataSet):
        return "local" if local_files(entry, data) else "Hub"
    if not isinstance(entry, Group):
        return "generated"
    places = {_where(find(name), data) for name in entry.members}
    return places.pop() if len(places) == 1 else "Hub"
