"""Every registered source of problems, with what is here of it."""

from __future__ import annotations

from typing import Any

from sage_cli.errors import SageError
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.load import read_problems
from sage_cli.problems.overlap import duplicates
from sage_cli.problems.registry import ENTRIES, Entry, find, require_known_revisions
from sage_cli.problems.sources import local_files
from sage_cli.settings.data import DataSection


def list_sources(data: DataSection) -> list[dict[str, Any]]:
    """Return every registered source; only local copies and generators are read.

    `problems` is None for a source of the Hub, and for a broken copy, which `trouble` explains.
    `revision` is what a data set is pinned to on the Hub, `newest` for one that isn't.
    """
    require_known_revisions(data.revisions)
    return [_listed(entry, data) for entry in ENTRIES.values()]


def _listed(entry: Entry, data: DataSection) -> dict[str, Any]:
    where, problems, trouble = _where(entry, data), None, None
    if where != "Hub":
        try:
            problems = read_problems(entry.name, data)
        except SageError as error:
            trouble = error.cause
    pinned = entry.pinned(data.revisions).revision if isinstance(entry, DataSet) else None
    return {
        "name": entry.name,
        "title": entry.title,
        "use": "training" if entry.training else "evaluation",
        "where": where,
        "problems": None if problems is None else len(problems),
        "expected": entry.count if isinstance(entry, DataSet | Group) else None,
        "repeated": None if problems is None else sum(len(g) - 1 for g in duplicates(problems)),
        "revision": (pinned or "newest") if isinstance(entry, DataSet) else None,
        "trouble": trouble,
    }


def _where(entry: Entry, data: DataSection) -> str:
    """Return `local`, `Hub` or `generated`; a group is local if all its members are."""
    if isinstance(entry, DataSet):
        return "local" if local_files(entry, data) else "Hub"
    if not isinstance(entry, Group):
        return "generated"
    places = {_where(find(name), data) for name in entry.members}
    return places.pop() if len(places) == 1 else "Hub"
